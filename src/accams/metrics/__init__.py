"""Measures of predicted values and of ranked recommendations."""

from accams.metrics.ranking import coverage, hit_rate, mean_average_precision, mrr, ndcg, precision, recall
from accams.metrics.rating import fcp, mae, rmse, rmse_per_user

__all__ = [
    "coverage",
    "fcp",
    "hit_rate",
    "mae",
    "mean_average_precision",
    "mrr",
    "ndcg",
    "precision",
    "recall",
    "rmse",
    "rmse_per_user",
]
