"""Scalar functions, by category."""
