"""Data sets: what they are, where their images lie, and batches of them on a device, in time.

Import `conf` for the configurations (no torch in it), `opening` for `describe` and `open_data`.
"""
