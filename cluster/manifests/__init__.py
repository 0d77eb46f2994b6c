"""Manifests of a run on Kubernetes, as values made by plain functions. This package does not access a cluster."""
