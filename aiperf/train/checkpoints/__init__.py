"""Checkpoints of trials: files, reading, writing and removal."""
