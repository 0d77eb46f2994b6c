"""Exchange between the ranks (training processes) of one worker: by Horovod, by torch's DistributedDataParallel, or none."""
