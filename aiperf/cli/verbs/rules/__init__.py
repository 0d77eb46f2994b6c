"""Verbs about rules and proofs."""
