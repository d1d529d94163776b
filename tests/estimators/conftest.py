"""Assertions in the shared test class are explained like those in test files."""

import pytest

pytest.register_assert_rewrite("shared", "shared_inputs")
