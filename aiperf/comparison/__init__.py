"""Comparison of runs: their differences, and the significance of differences between their results."""
