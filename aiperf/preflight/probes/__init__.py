"""The probes, one file each; `listed.py` says which are carried out when."""
