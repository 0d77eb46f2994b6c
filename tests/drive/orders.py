"""An order for a worker, small and complete."""

from aiperf.journal.messages import Train


def order(worker: int, trial: int) -> Train:
    """Two epochs of the starting network."""
    return Train(
        trial=trial,
        attempt=1,
        worker=worker,
        lineage=(),
        morphs=(),
        parent=None,
        first_epoch=1,
        last_epoch=2,
        patience=6,
        improvement=0.001,
        losses=(),
        batch_size=32,
        seed=0,
        progress_seconds=5.0,
        edges=(),
    )
