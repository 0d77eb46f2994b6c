"""The data set of the first line: the one that is configured, and in the numbers that everyone knows of it."""

from __future__ import annotations

from collections.abc import Mapping

from aiperf.data.description import DIGITS, DataSet
from aiperf.journal.events import RunStarted
from aiperf.verify.check import Handler, Notes
from aiperf.verify.finding import Checked

LAW = "the data set is the one that is configured, in its known numbers"
NUMBERS = ("training_images", "validation_images", "classes", "image", "channels")


class OfTheDataSet:
    """A check."""

    def __init__(self) -> None:
        self._notes = Notes("data set", LAW, "values")

    def handlers(self) -> Mapping[type, Handler]:
        """See `Check`."""
        return {RunStarted: self._started}

    def checked(self) -> Checked:
        """See `Check`."""
        return self._notes.checked()

    def _started(self, line: int, event: RunStarted) -> None:
        told, configured = event.dataset, event.config.get("dataset")
        if isinstance(configured, dict):
            for name in ("name", "noise"):
                # a set that makes its noise itself has it configured, and is told without
                if name in configured and name in told and (name == "name" or told["name"] == DIGITS.name):
                    self._same(line, name, told[name], configured[name])
        if told.get("name") == DIGITS.name:
            for name in NUMBERS:
                self._same(line, name, told.get(name), getattr(DIGITS, name))
        if "is_full_imagenet" in told and all(isinstance(told.get(name), int) for name in NUMBERS):
            channels = told["channels"]
            known = DataSet(
                str(told.get("name")),
                **{name: told[name] for name in NUMBERS},
                mean=(0.5,) * channels,
                std=(1.0,) * channels,
            )
            self._same(line, "is_full_imagenet", told["is_full_imagenet"], known.is_full_imagenet)

    def _same(self, line: int, name: str, told: object, known: object) -> None:
        self._notes.examined += 1
        if told != known:
            self._notes.add(line, LAW, f"{name} is {told!r}; known is {known!r}")
