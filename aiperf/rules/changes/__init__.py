"""Changes of a Run in place by events: one file for each part of it."""
