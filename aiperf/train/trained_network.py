"""Reader of a network trained by a run: its checkpoint, and the graph file in the same folder."""

from __future__ import annotations

from pathlib import Path

from aiperf.train.checkpoints.checkpoint import NoCheckpoint
from aiperf.train.checkpoints.checkpoint import load as load_snapshot
from aiperf.train.checkpoints.checkpoint_files import CheckpointFolder, checkpoint_of
from aiperf.train.network.module import Network, build
from morphism import load as load_graph


def trained_network(checkpoint: Path, graph: Path | None = None) -> Network:
    """Return the network of a checkpoint file with its weights, in host memory and in evaluation mode.

    `graph`: default: `trial-N.graph.json` in the checkpoint's folder. The network takes images (batch, channels, height,
    width) in FP32, normalised as in `aiperf.data`, and returns logits (batch, classes). Raise NoCheckpoint, DamagedCheckpoint
    or DamagedGraphFile if a file is missing, damaged or of another graph, and OSError.
    """
    if (number_and_epoch := checkpoint_of(checkpoint.name)) is None:
        raise NoCheckpoint(
            f"a checkpoint is called trial-N.epoch-N.safetensors, but found {str(checkpoint)!r}: give the path of such a file"
        )
    trial, epoch = number_and_epoch
    architecture = load_graph(graph or checkpoint.with_name(f"trial-{trial}.graph.json"))
    folder = CheckpointFolder(checkpoint.parent)
    snapshot = load_snapshot(folder, trial, architecture.fingerprint, epoch, with_momentum=False)
    network = build(architecture)
    network.load_state_dict(dict(snapshot.weights))
    return network.eval()
