"""Traces of training steps: time of kernels by class, time of the exchange by phase, and numbers that 16-bit types lose."""
