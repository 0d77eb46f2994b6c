"""Preflight: checks of each node before it may hold a worker."""
