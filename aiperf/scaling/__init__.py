"""Scaling: efficiency of runs with more ranks, networks of links, matrix units, and places in published lists."""
