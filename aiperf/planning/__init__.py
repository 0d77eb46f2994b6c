"""Plan of a run, computed from its configuration and its workers' shape before it starts."""
