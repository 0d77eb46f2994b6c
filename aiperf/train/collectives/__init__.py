"""Exchange between the ranks of one worker: Horovod, torch's DistributedDataParallel, or a single rank."""
