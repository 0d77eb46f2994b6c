"""Main process of a run (driver) and its connections to workers (executors). Only this code uses clock, disk and workers."""
