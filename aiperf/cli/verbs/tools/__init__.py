"""Tools as verbs."""
