"""Parameters of the estimators: each with its default, documentation, type and bounds in one place."""
