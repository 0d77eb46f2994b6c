"""Probes, one file each. `all_probes.py` lists them."""
