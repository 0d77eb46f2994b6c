"""Traces of training steps: kernels by class, gradient exchange by phase, and numbers that 16-bit types lose."""
