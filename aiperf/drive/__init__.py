"""Drivers and executors: the only code that uses the clock, the disk and workers."""
