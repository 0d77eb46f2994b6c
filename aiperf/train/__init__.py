"""Training of one trial (one network) on one worker. torch is imported here and in `aiperf.data` only."""
