"""List of many runs, ordered by a metric within each benchmark."""
