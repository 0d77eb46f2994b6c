"""Scaling: efficiency of runs with more accelerators, networks of links, matrix units, and places in published lists."""
