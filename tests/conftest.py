"""What all tests share."""

from hypothesis import settings

# How long an example takes says nothing on a machine that does other work too: a slow one is no failure.
settings.register_profile("aiperf", deadline=None)
settings.load_profile("aiperf")
