"""Exact accounting of work and time from a journal: the score, its interval, and the use of time."""
