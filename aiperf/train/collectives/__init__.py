"""How the ranks of one worker act as one: Horovod, torch's DistributedDataParallel, or a single rank."""
