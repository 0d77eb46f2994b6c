"""Runs that are announced, signed, bundled for others, and judged by them."""
