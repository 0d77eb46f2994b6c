"""Training of one trial on one worker. torch is imported here and in `aiperf.data` only."""
