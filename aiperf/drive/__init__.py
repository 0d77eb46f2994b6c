"""The impure floor: the only code that touches clock, disk and workers."""
