"""Faults of a simulated cluster, grouped by the affected part."""
