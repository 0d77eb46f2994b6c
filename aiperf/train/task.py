"""Task that a network is trained for: initial weights, the loss of a batch, and the quality of a validation pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aiperf.accounting.average_precision import ImageDetections
from aiperf.data.batches import Batch
from aiperf.data.pixels import to_device
from aiperf.journal.events import Halves, Metric
from aiperf.train.memory_limits import blank
from aiperf.train.precision import Precision
from aiperf.train.torch_network import Network, build, initialise
from morphism import Architecture, Graph


@dataclass(frozen=True, slots=True)
class Quality:
    """Quality of a network: result of a validation pass over the images of all ranks."""

    value: float
    """Quality in the metric of the network, 0..1."""
    loss: float | None
    """Mean loss per image. None for a task without a validation loss."""
    regions: int = 0
    """Regions that a detector evaluated."""
    missing_regions: int = 0
    """Regions of the training pass before that a detector could not sample."""
    halves: Halves | None = None
    """None for a detector, and for a half without samples."""


class ValidationSums(Protocol):
    """Interface of the sums over one rank's validation pass. They stay on the device until they are read."""

    def add(self, network: nn.Module, batch: Batch) -> None:
        """Evaluate a batch with the network, and add its results to the sums. The network must be in evaluation mode."""

    def read(self) -> list[float]:
        """Return the sums, equally many on every rank, for summation over the ranks. The call waits for the device."""


class Task(Protocol):
    """Interface of the task that a trial's network is trained for. It states its input, its quality and the quality's unit."""

    @property
    def metric(self) -> Metric:
        """What `Quality.value` measures, with its unit in `aiperf.units.METRICS`."""

    def blank(
        self, architecture: Architecture, batch: int, device: torch.device, precision: Precision, *, channels_last: bool
    ) -> Tensor | None:
        """Return an input with the shape, type and layout of a batch, on which a step is rehearsed. None: no rehearsal."""

    def build(self, architecture: Architecture) -> nn.Module:
        """Return the network of an architecture in host memory. Its weights have no meaning until they are set."""

    def initial_network(self, architecture: Architecture, seed: int) -> nn.Module:
        """Return the network of an architecture in host memory, with initial weights that depend only on `seed`."""

    def loss(self, module: nn.Module, batch: Batch) -> Tensor:
        """Return the mean training loss of a batch, a scalar. `module`: the network in training mode."""

    def validation_sums(self, network: nn.Module, images: int) -> ValidationSums:
        """Return empty sums for a validation pass of all ranks over `images` images."""

    def quality(self, sums: Sequence[float], images: int) -> Quality:
        """Return the quality of the network from a validation pass over `images` images.

        `sums`: results of `ValidationSums.read`, added over all ranks.
        """

    def detections(self, sums: Sequence[float]) -> Sequence[ImageDetections]:
        """Return true boxes and detections of each validation image. Empty for classification.

        `sums`: results of `ValidationSums.read`, added over all ranks.
        """
        ...


@dataclass(frozen=True, slots=True)
class _OfGraph:
    """Methods of a task whose network is a graph, trained by cross entropy."""

    label_smoothing: float
    """Share of a training target that is spread over all classes, 0..1."""

    def blank(
        self, architecture: Architecture, batch: int, device: torch.device, precision: Precision, *, channels_last: bool
    ) -> Tensor:
        assert isinstance(architecture, Graph)
        return blank(architecture, batch, device, precision, channels_last=channels_last)

    def build(self, architecture: Architecture) -> Network:
        assert isinstance(architecture, Graph)
        return build(architecture)

    def initial_network(self, architecture: Architecture, seed: int) -> Network:
        network = self.build(architecture)
        initialise(network, seed)
        return network

    def detections(self, sums: Sequence[float]) -> Sequence[ImageDetections]:
        return ()


@dataclass(frozen=True, slots=True)
class Classification(_OfGraph):
    """Task of classifying images, trained by cross entropy. The quality is top-1 accuracy, 0..1. Targets are class numbers."""

    metric: ClassVar[Metric] = "top1"

    def loss(self, module: nn.Module, batch: Batch) -> Tensor:
        return F.cross_entropy(module(batch.images).float(), batch.targets, label_smoothing=self.label_smoothing)

    def validation_sums(self, network: nn.Module, images: int) -> _ClassificationSums:
        return _ClassificationSums(next(network.parameters()).device)

    def quality(self, sums: Sequence[float], images: int) -> Quality:
        loss, correct, even_correct, even = sums[0], *map(int, sums[1:])
        halves = Halves(
            even_correct=even_correct, even_samples=even, odd_correct=correct - even_correct, odd_samples=images - even
        )
        return Quality(correct / images, loss / images, halves=halves if 0 < even < images else None)


@dataclass(frozen=True, slots=True)
class LanguageModel(_OfGraph):
    """Task of telling the next token. The quality is the share of tokens that have the largest logit, 0..1.

    Images and targets are token numbers (sequences, length). The loss is per token, in nats.
    """

    metric: ClassVar[Metric] = "next_token"

    def loss(self, module: nn.Module, batch: Batch) -> Tensor:
        logits: Tensor = module(batch.images).flatten(0, 1).float()
        return F.cross_entropy(logits, batch.targets.flatten(), label_smoothing=self.label_smoothing)

    def validation_sums(self, network: nn.Module, images: int) -> _TokenSums:
        return _TokenSums(next(network.parameters()).device)

    def quality(self, sums: Sequence[float], images: int) -> Quality:
        loss, correct, tokens = sums
        return Quality(correct / tokens, loss / tokens)


class _TokenSums:
    def __init__(self, device: torch.device) -> None:
        self._loss = torch.zeros((), dtype=torch.float64, device=device)
        self._correct = torch.zeros((), dtype=torch.int64, device=device)
        self._tokens = 0

    def add(self, network: nn.Module, batch: Batch) -> None:
        logits, targets = network.forward(batch.images).flatten(0, 1).float(), batch.targets.flatten()
        self._loss.add_(F.cross_entropy(logits, targets), alpha=len(targets))
        self._correct.add_((logits.argmax(1) == targets).sum())
        self._tokens += len(targets)

    def read(self) -> list[float]:
        return [self._loss.item(), float(self._correct.item()), float(self._tokens)]


class _ClassificationSums:
    def __init__(self, device: torch.device) -> None:
        self._loss = torch.zeros((), dtype=torch.float64, device=device)
        self._correct = torch.zeros((), dtype=torch.int64, device=device)
        self._even_correct = torch.zeros_like(self._correct)
        self._even = 0

    def add(self, network: nn.Module, batch: Batch) -> None:
        logits = network.forward(batch.images).float()  # not __call__: only the training step is compiled
        self._loss.add_(F.cross_entropy(logits, batch.targets), alpha=batch.count)
        is_correct, is_even = logits.argmax(1) == batch.targets, batch.numbers % 2 == 0
        self._correct.add_(is_correct.sum())
        self._even_correct.add_((is_correct & to_device(torch.from_numpy(is_even), is_correct.device)).sum())
        self._even += int(is_even.sum())

    def read(self) -> list[float]:
        return [self._loss.item(), float(self._correct.item()), float(self._even_correct.item()), float(self._even)]
