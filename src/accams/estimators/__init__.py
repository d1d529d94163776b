"""Estimators with the scikit-learn API: they check input, call fit/ and wrap the result."""
