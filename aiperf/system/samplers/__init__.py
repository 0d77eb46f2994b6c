"""Samplers of accelerators by the libraries of NVIDIA and AMD."""
