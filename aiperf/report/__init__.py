"""The report of a run, from its journal alone: figures first (`facts`, `fold`), then pictures and pages (`write`).

Needs neither torch nor Ray nor the machine that the run was on.
"""
