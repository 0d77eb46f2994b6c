"""Memory of a training step: largest batch, estimates and allocator."""
