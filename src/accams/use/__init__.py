"""Use of a model by position: score, fold in, compare, explain, evaluate."""
