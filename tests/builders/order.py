"""Orders and words for the trainer's tests: tiny networks, tiny sets of images, one thread."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from aiperf.data.dataset_config import SyntheticConf
from aiperf.data.opening import open_data
from aiperf.journal.messages import Advanced, CheckpointGone, Crashed, EpochDone, Message, Train, TrialDone
from aiperf.train.loop import train_here
from aiperf.train.ranks.group import RankGroup
from aiperf.train.trainer_config import TrainerConf
from morphism import Convolution, Dense, GlobalAveragePooling, Graph, Input, Node, Relu, Softmax, start
from tests.rigs.stand_in_ranks import order as small_order

IMAGES = SyntheticConf(training_images=150, validation_images=50, classes=3, image=8, channels=1, noise=0.1)
"""At batch 64 an epoch has two steps and omits 22 images. Its validation has one smaller step."""
CONF = TrainerConf(threads=1, precision="fp32", learning_rate=0.05)


def visited(batch: int) -> int:
    """Return the training images of an epoch in whole steps of the given size."""
    return IMAGES.training_images // batch * batch


def graph() -> Graph:
    """The smallest start, batch normalisation and all."""
    return start("digits_small", classes=3)


def plain_graph() -> Graph:
    """Return a graph without batch normalisation, because its statistics differ between ranks."""
    return Graph(
        (
            Node("input", Input(1, 8, 8), ()),
            Node("conv1", Convolution(8, 3, padding=1), (0,)),
            Node("relu1", Relu(), (1,)),
            Node("conv2", Convolution(16, 3, stride=2, padding=1), (2,)),
            Node("relu2", Relu(), (3,)),
            Node("pool", GlobalAveragePooling(), (4,)),
            Node("classifier", Dense(3), (5,)),
            Node("softmax", Softmax(), (6,)),
        )
    )


ORDER = msgspec.structs.replace(
    small_order(worker=0, trial=1), patience=60, batch_size=64, seed=7, progress_seconds=1000.0
)


def order(**changes: object) -> Train:
    return msgspec.structs.replace(ORDER, **changes)


def train(
    train_order: Train, folder: Path, conf: TrainerConf = CONF, start_graph: Graph | None = None
) -> list[Message]:
    """All words of an order carried out in this process."""
    with open_data(IMAGES) as images:
        return list(train_here(train_order, conf, images, start_graph or graph(), folder))


def epochs(words: Iterable[Message]) -> list[EpochDone]:
    return [word for word in words if isinstance(word, EpochDone)]


def advances(words: Iterable[Message]) -> list[Advanced]:
    return [
        word.advanced if isinstance(word, EpochDone) else word
        for word in words
        if isinstance(word, EpochDone | Advanced)
    ]


def follow(group: RankGroup, train_order: Train) -> list[Message]:
    """Send an order and return its messages."""
    group.order(train_order)
    return hear(group)


def hear(group: RankGroup) -> list[Message]:
    """The words up to the one that ends an attempt."""
    return to_the_end(group, [])


def to_the_end(group: RankGroup, heard: list[Message]) -> list[Message]:
    """Return the earlier messages and those up to the last one of the attempt, which may be among them."""
    while not (heard and isinstance(heard[-1], TrialDone | Crashed | CheckpointGone)):
        heard += group.messages(timeout=60.0)
    return heard
