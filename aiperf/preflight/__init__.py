"""Preflight: what is measured on every node before it may hold a worker, and what is judged of it."""
