"""Verbs about results of runs."""
