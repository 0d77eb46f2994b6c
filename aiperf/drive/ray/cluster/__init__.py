"""Ray cluster of a run: start it or join it, observe its processes, and end it."""
