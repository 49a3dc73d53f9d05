"""Looking at runs: lists, comparisons over seeds and plots, from run folders alone."""

from cursus.analysis.compare_runs import RunComparison, compare_runs, plot_runs
from cursus.analysis.curve_plot import CurveBand, plot_curves
from cursus.analysis.history import RunHistory
from cursus.analysis.listing import RunSummary, list_runs
from cursus.analysis.run_plot import plot_run
from cursus.analysis.training_plot import plot_training

__all__ = [
    "CurveBand",
    "RunComparison",
    "RunHistory",
    "RunSummary",
    "compare_runs",
    "list_runs",
    "plot_curves",
    "plot_run",
    "plot_runs",
    "plot_training",
]
