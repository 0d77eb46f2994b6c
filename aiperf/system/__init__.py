"""What the machine is and how it fares during a run: description, telemetry, warnings, peaks.

Nothing here imports torch, ray or a vendor's library at import time: it loads in milliseconds, on a laptop too.
"""
