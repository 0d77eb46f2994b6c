"""A run on Kubernetes as objects of its API: values made by plain functions, and nothing is asked of a cluster here."""
