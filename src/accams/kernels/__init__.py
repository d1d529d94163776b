"""Numba functions on plain arrays: leaves that know no objects, no globals, no files."""
