"""Checkpoints of trials (trained networks): files, reading, writing and removal."""
