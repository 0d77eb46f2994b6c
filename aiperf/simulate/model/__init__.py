"""Model of simulated machines: workers with their speed, memory, checkpoints and learning curves, under a virtual clock."""
