"""Report of a run, computed from its journal (event file): results (`facts`, `fold`), drawings and pages (`write`)."""
