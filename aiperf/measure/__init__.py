"""Measurements of a node: probes, each run in a separate process, with the raw value of every repetition."""
