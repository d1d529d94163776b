"""Reports of a fitted model: one page for a browser, and figures for print."""

from accams.report.curves import plot_bytes
from accams.report.facts import Facts, gather
from accams.report.page import write
from accams.report.plotting import Plots

__all__ = ["Facts", "Plots", "gather", "plot_bytes", "write"]
