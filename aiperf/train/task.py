"""Training task: initial weights, the loss of a batch, and the quality of a validation pass. Classification is one task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aiperf.data.batches import Batch
from aiperf.journal.events import Metric
from aiperf.train.network.module import Network, build
from aiperf.train.network.weights import initialise
from morphism import Graph


@dataclass(frozen=True, slots=True)
class Quality:
    """Result of a validation pass over the images of all ranks."""

    value: float
    """Quality in the task's metric, 0..1."""
    loss: float
    """Mean loss per image."""


class ValidationSums(Protocol):
    """Sums over one rank's validation pass. They stay on the device until they are read."""

    def add(self, network: Network, batch: Batch) -> None:
        """Evaluate a batch and add its results, without synchronizing the device."""

    def read(self) -> list[float]:
        """Return the sums, equally many on every rank. Synchronizes the device."""


class Task(Protocol):
    """Task that a trial's network is trained for."""

    @property
    def metric(self) -> Metric:
        """Return the name of the quality's metric."""

    def initial_network(self, graph: Graph, seed: int) -> Network:
        """Return a network with initial weights, on the host."""

    def loss(self, module: nn.Module, batch: Batch) -> Tensor:
        """Return the mean training loss of a batch, a scalar."""

    def validation_sums(self, device: torch.device) -> ValidationSums:
        """Return empty sums for a validation pass."""

    def quality(self, sums: Sequence[float], images: int) -> Quality:
        """Return the quality from the sums of all ranks over `images` validation images."""


@dataclass(frozen=True, slots=True)
class Classification:
    """Classification of images by cross entropy. Quality: top-1 accuracy. A batch's targets are its classes."""

    label_smoothing: float
    """Share of a training target that is spread over all classes, 0..1."""

    @property
    def metric(self) -> Metric:
        return "top1"

    def initial_network(self, graph: Graph, seed: int) -> Network:
        network = build(graph)
        initialise(network, seed)
        return network

    def loss(self, module: nn.Module, batch: Batch) -> Tensor:
        return F.cross_entropy(module(batch.images).float(), batch.targets, label_smoothing=self.label_smoothing)

    def validation_sums(self, device: torch.device) -> _ClassificationSums:
        return _ClassificationSums(device)

    def quality(self, sums: Sequence[float], images: int) -> Quality:
        loss, correct = sums
        return Quality(correct / images, loss / images)


class _ClassificationSums:
    """Summed loss and number of correct images."""

    def __init__(self, device: torch.device) -> None:
        self._loss = torch.zeros((), dtype=torch.float64, device=device)
        self._correct = torch.zeros((), dtype=torch.int64, device=device)

    def add(self, network: Network, batch: Batch) -> None:
        logits = network.forward(batch.images).float()  # not __call__: only the training step is compiled
        self._loss.add_(F.cross_entropy(logits, batch.targets), alpha=batch.count)
        self._correct.add_((logits.argmax(1) == batch.targets).sum())

    def read(self) -> list[float]:
        return [self._loss.item(), float(self._correct.item())]
