"""Comparison of two runs: their differences, tested for significance."""
