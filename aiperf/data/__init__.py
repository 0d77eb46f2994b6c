"""Data sets: what they are, where their images lie, and batches of them on a device, in time.

Import `dataset_config` for the configurations (no torch in it), `survey` for `describe`, `opening` for `open_data`.
"""
