"""Prediction of HPL by layers of communication, and its comparison with HPL as measured (docs/hpl.md)."""
