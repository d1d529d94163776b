"""Reports of a fitted model: one page for a browser, and figures for print."""

from accams.report.facts import Facts, gather
from accams.report.page import write

__all__ = ["Facts", "gather", "write"]
