"""Verbs about runs."""
