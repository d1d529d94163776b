"""The script that kills processes is beside the package: its folder is put on the path here."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "experiments"))
