"""Preflight: measurements and checks of each node before it may hold a worker."""
