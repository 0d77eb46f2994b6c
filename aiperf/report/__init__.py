"""Report of a run, computed from its journal (event file): results (`facts`, `fold`), drawings and pages (`write`).

Needs neither torch nor Ray nor the machine that the run was on.
"""
