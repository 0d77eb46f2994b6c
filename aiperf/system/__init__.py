"""Description, telemetry, warnings and peaks of the machines of a run.

No module imports torch, ray or a vendor's library at import time. The package loads in milliseconds, also on a laptop.
"""
