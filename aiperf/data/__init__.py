"""Data sets: configuration (`dataset_config`, without torch), files (`survey`), and batches on a device (`opening`)."""
