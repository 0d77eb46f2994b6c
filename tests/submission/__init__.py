"""Runs that are announced, signed, bundled and judged."""
