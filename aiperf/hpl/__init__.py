"""Prediction of HPL by layers of communication, and comparison with measured HPL (docs/hpl.md)."""
