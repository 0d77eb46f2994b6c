"""Memory of a training step on a device: largest batch that fits, estimates and measurement."""
