"""Searcher for Ray Tune (`ray.tune.search.Searcher`) that suggests grown networks. Only this module imports ray."""

from __future__ import annotations

import json
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any, Final

from ray.tune.search import Searcher as TuneSearcher

from morphism import Morph, choices, decode_morph, encode, encode_morph
from searchers.growth import NothingToPropose, own_size
from searchers.history import (
    FailedTrial,
    Finished,
    History,
    Observation,
    OutOfMemoryPoint,
    Request,
    Searcher,
    Space,
    TrialInFlight,
)
from searchers.propose import propose
from searchers.tpe import Tpe

FORMAT: Final = 1


class DamagedSearch(ValueError):
    """Error for a saved search that cannot be restored. The message names the value and the rule."""


class MorphismSearch(TuneSearcher):
    """Searcher for Ray Tune that suggests networks grown from a starting graph.

    The metric is an accuracy (mode 'max') or an error (mode 'min') in 0..1. A suggestion is a dict with the keys number (0 is
    the starting graph), graph (text for `morphism.decode`), parent (id of the parent's Tune trial, None for the starting
    graph), morphs (from the parent's graph to this one, JSON of `morphism.encode_morph`), batch_size, and kernel_size (None
    if not tuned). Suggestions end if no new network fits the budget.
    """

    def __init__(
        self,
        space: Space,
        searcher: Searcher,
        tuner: Tpe | None,
        seed: int,
        trials_per_round: int,
        metric: str,
        mode: str,
    ) -> None:
        """`trials_per_round`: suggestions that count as one round, since Tune has no rounds.

        `metric` and `mode` ('max' or 'min') are arguments, because Tune passes its own ones only with a param_space. Raise
        ValueError for another mode, or for `trials_per_round` below 1.
        """
        if mode not in ("max", "min"):
            raise ValueError(
                f"mode must be 'max' for an accuracy or 'min' for an error. This one is {mode!r}: change it"
            )
        super().__init__(metric=metric, mode=mode)
        if trials_per_round < 1:
            raise ValueError(f"trials_per_round must be at least 1. This one is {trials_per_round!r}: raise it")
        self._searcher, self._tuner, self._seed, self._trials_per_round = searcher, tuner, seed, trials_per_round
        self._history = History(space)
        self._observations: list[Observation] = []
        self._numbers: dict[str, int] = {}
        self._ids: dict[int, str] = {}

    @property
    def history(self) -> History:
        return self._history

    # Tune's FINISHED is a string, which its annotation lacks
    def suggest(self, trial_id: str) -> dict[str, Any] | str:  # type: ignore[override]
        number = len(self._numbers)
        request = Request(number, 1 + number // self._trials_per_round, self._seed)
        try:
            proposal = propose(self._searcher, self._history, request, self._tuner)
        except NothingToPropose:
            return str(TuneSearcher.FINISHED)
        graph = self._history.grown(proposal.parent, proposal.morphs)
        self._numbers[trial_id], self._ids[number] = number, trial_id
        self._tell(
            TrialInFlight(
                number,
                request.round,
                proposal.parent,
                proposal.morphs,
                proposal.batch_size,
                proposal.kernel_size,
                graph.fingerprint,
                proposal.pruned,
                own_size(graph),
                not choices(graph, self._history.space.budget).is_empty(),
            )
        )
        return {
            "number": number,
            "graph": encode(graph),
            "parent": None if proposal.parent is None else self._ids[proposal.parent],
            "morphs": [encode_morph(morph) for morph in proposal.morphs],
            "batch_size": proposal.batch_size,
            "kernel_size": proposal.kernel_size,
        }

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """A trial without a finite metric has failed. Raise ValueError for a finite metric outside 0..1."""
        number = self._numbers.get(trial_id)
        if number is None:
            return  # a trial of another searcher: Tune notifies all searchers
        value = None if error or not result else result.get(str(self._metric))
        if value is None or not isfinite(value):
            self._tell(FailedTrial(number))
        elif not 0.0 <= value <= 1.0:
            raise ValueError(
                f"{self._metric} of trial {trial_id} must be from 0 to 1, but is {value}: report a fraction"
            )
        else:
            self._tell(Finished(number, float(value) if self._mode == "max" else 1.0 - float(value)))

    def save(self, checkpoint_path: str) -> None:
        saved = {
            "format": FORMAT,
            "start": self._history.space.start.fingerprint,
            "trials": self._numbers,
            "observations": [_encoded(observation) for observation in self._observations],
        }
        Path(checkpoint_path).write_text(json.dumps(saved), encoding="utf-8")

    def restore(self, checkpoint_path: str) -> None:
        """Raise OSError, or DamagedSearch for another format or starting graph. The state is unchanged after an error."""
        try:
            saved = json.loads(Path(checkpoint_path).read_text(encoding="utf-8"))
            form = (saved["format"], saved["start"])
            numbers = {str(trial): int(number) for trial, number in saved["trials"].items()}
            encoded = list(saved["observations"])
        except (ValueError, KeyError, TypeError, AttributeError) as offence:
            raise DamagedSearch(
                f"{checkpoint_path!r} holds no saved search ({offence!r}): give a file that `save` wrote"
            ) from offence
        expected = (FORMAT, self._history.space.start.fingerprint)
        if form != expected:
            raise DamagedSearch(
                f"{checkpoint_path!r} has format {form[0]!r} and starting graph {form[1]!r}; this search reads format "
                f"{expected[0]!r} and starts from {expected[1]!r}: restore it with the space it was saved with"
            )
        try:
            observations = [_decoded(one) for one in encoded]
            history = History(self._history.space)
            history.observe(observations)
        except (ValueError, KeyError, TypeError, LookupError) as offence:
            raise DamagedSearch(
                f"{checkpoint_path!r} has damaged observations ({offence!r}): give an undamaged copy of the file"
            ) from offence
        self._history, self._observations = history, observations
        self._numbers, self._ids = numbers, {number: trial for trial, number in numbers.items()}

    def _tell(self, observation: Observation) -> None:
        self._history.observe([observation])
        self._observations.append(observation)


def _encoded(observation: Observation) -> dict[str, Any]:
    fields = asdict(observation)
    if isinstance(observation, TrialInFlight):
        fields["morphs"] = [encode_morph(morph) for morph in observation.morphs]
    return {"kind": type(observation).__name__, **fields}


def _decoded(encoded: dict[str, Any]) -> Observation:
    fields = {name: value for name, value in encoded.items() if name != "kind"}
    match encoded["kind"]:
        case "TrialInFlight":
            morphs: tuple[Morph, ...] = tuple([decode_morph(morph) for morph in fields["morphs"]])
            pruned = tuple([OutOfMemoryPoint(**point) for point in fields["pruned"]])
            return TrialInFlight(**{**fields, "morphs": morphs, "pruned": pruned})
        case "Finished":
            return Finished(**fields)
        case "FailedTrial":
            return FailedTrial(**fields)
        case kind:
            raise ValueError(f"an observation has the unknown kind {kind!r}")
