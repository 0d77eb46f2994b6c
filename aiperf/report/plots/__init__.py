"""Drawings of a report, one function for each. They compute positions only."""
