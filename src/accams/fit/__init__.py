"""Fitting algorithms: they work on k x k tables and leave all passes over the data to an engine."""
