"""What a run will be, worked out of its configuration and its workers' shape before anything starts."""
