"""Preflight: checks of each node before training processes may run on it."""
