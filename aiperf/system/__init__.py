"""Description, telemetry, warnings and peaks of the machines of a run."""
