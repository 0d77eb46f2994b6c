"""Data sets: configuration, files, and batches on a device.

Import `dataset_config` for the configurations (no torch), `survey` for `describe`, `opening` for `open_data`.
"""
