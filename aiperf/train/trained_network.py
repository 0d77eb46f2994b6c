"""Networks of a run, read from checkpoints: as a torch module, and their quality on the validation images."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from aiperf.accounting.average_precision import ImageDetections
from aiperf.data.dataset_config import DataSetConf
from aiperf.data.opening import open_data
from aiperf.journal.events import Metric
from aiperf.progress import under_way
from aiperf.train.checkpoints.checkpoint import DamagedCheckpoint, NoCheckpoint, load
from aiperf.train.checkpoints.checkpoint_files import CheckpointFolder, checkpoint_of
from aiperf.train.collectives.collective import SingleRank
from aiperf.train.rank_context import RankContext
from aiperf.train.setup import walk
from aiperf.train.task import Quality
from aiperf.train.torch_network import Network, build, placed
from aiperf.train.trainer_config import TrainerConf
from morphism import Architecture
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
    snapshot = load(folder, trial, architecture.fingerprint, epoch, with_optimiser=False)
    network = build(architecture)
    network.load_state_dict(dict(snapshot.weights))
    return network.eval()


@dataclass(frozen=True, slots=True)
class Evaluation:
    metric: Metric
    quality: Quality
    images: int
    precision: str
    """fp32, tf32, bf16 or fp16."""
    device: str
    """Type of the device: cpu or cuda."""
    detections: Sequence[ImageDetections] = ()
    """True boxes and detections of each image. Empty for classification."""


def evaluate(
    folder: CheckpointFolder,
    trial: int,
    epoch: int,
    network: Architecture,
    dataset: DataSetConf,
    trainer: TrainerConf,
    precision: str,
    batch: int,
) -> Evaluation:
    """Return the quality of a checkpoint on all validation images: top-1 accuracy, or mean average precision.

    `precision`: of the training. tf32 becomes fp32 on a processor. Raise NoCheckpoint or DamagedCheckpoint if the checkpoint
    cannot be read, and DataError or BadConfiguration if the data set cannot be used.
    """
    weights = load(folder, trial, network.fingerprint, epoch, with_optimiser=False).weights
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if precision == "tf32" and device.type == "cpu":
        precision = "fp32"
    conf = replace(trainer, precision=precision, compile="off", cuda_graphs="off")
    with open_data(dataset) as data, torch.inference_mode():
        context = RankContext.make(conf, data, network, device, SingleRank(), writer=None)
        module = context.task.build(network)
        try:
            module.load_state_dict(dict(weights))
        except RuntimeError as error:
            raise DamagedCheckpoint(f"{str(folder.path)!r} must hold the tensors of the network: {error}") from error
        placed(module, device, channels_last=conf.channels_last).eval()
        sums, images = context.task.validation_sums(module, data.validation_images), 0
        evaluated = under_way("validation samples", lambda: images, data.validation_images)
        with closing(data.validation(batch, **walk(context))) as batches, context.precision.computing(), evaluated:
            for each in batches:
                sums.add(module, each)
                images += each.count
        values = sums.read()
        task = context.task
        quality, detections = task.quality(values, images), task.detections(values)
        return Evaluation(task.metric, quality, images, context.precision.name, device.type, detections)
