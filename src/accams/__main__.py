"""``python -m accams``: the command line."""

from accams.cli.main import run

run()
