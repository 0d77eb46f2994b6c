"""Kubernetes manifests of a run, made as Python dictionaries. No cluster is accessed here."""
