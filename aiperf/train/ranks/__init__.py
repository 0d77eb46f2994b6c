"""Processes of a worker's ranks: start, messages, supervision and replacement."""
