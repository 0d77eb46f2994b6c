"""A network that a run has trained, ready to use: from a checkpoint and the graph file beside it, as they lie after the end."""

from __future__ import annotations

from pathlib import Path

from aiperf.train.checkpoint import NoCheckpoint
from aiperf.train.checkpoint import load as load_snapshot
from aiperf.train.checkpoint_files import CheckpointFolder, checkpoint_of
from aiperf.train.module import Network, build
from morphism import load as load_graph


def trained_network(checkpoint: Path, graph: Path | None = None) -> Network:
    """On the host, in evaluation mode. `graph`: where it does not lie beside the checkpoint as `trial-N.graph.json`.

    It takes images as `aiperf.data` gives them, (N, channels, height, width) in FP32, and gives logits (N, classes).

    Raises:
        NoCheckpoint: the file is not there, or is none by its name.
        DamagedCheckpoint: it cannot be read, or holds another network's weights.
        OSError: there is no graph file.
    """
    if (found := checkpoint_of(checkpoint.name)) is None:
        raise NoCheckpoint(f"a checkpoint is called trial-N.epoch-N.safetensors; found {str(checkpoint)!r}")
    trial, epoch = found
    architecture = load_graph(graph or checkpoint.with_name(f"trial-{trial}.graph.json"))
    folder = CheckpointFolder(checkpoint.parent)
    snapshot = load_snapshot(folder, trial, architecture.fingerprint, epoch, with_momentum=False)
    network = build(architecture)
    network.load_state_dict(dict(snapshot.weights))
    return network.eval()
