"""Scaling: networks of links, matrix units, and places in published lists."""
