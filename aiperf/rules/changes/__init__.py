"""Changes of the state of a run in place, by journal events: one file for each part of the state."""
