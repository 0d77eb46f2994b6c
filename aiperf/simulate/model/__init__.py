"""Simulation model: workers, their pace, memory, checkpoints and learning curves, under a virtual clock."""
