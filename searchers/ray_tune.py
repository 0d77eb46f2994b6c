"""The morphism search for users of Ray Tune: a `ray.tune.search.Searcher` with our history behind it.

Each suggestion is a whole network: its graph as text, the Tune trial that it grew from and by which morphs, a batch size.
What the trainable makes of that, and whether children inherit weights, is its own affair. This is the only file of
searchers that imports ray.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any, Final

from ray.tune.search import Searcher as TuneSearcher

from morphism import Morph, choices, decode_morph, encode, encode_morph
from searchers.growth import NothingToPropose
from searchers.history import Failed, Finished, History, Observation, Point, Proposed, Request, Searcher, Space
from searchers.kernel_size import own_size
from searchers.propose import Tuner, propose

FORMAT: Final = 1
"""Version of what `save` writes."""


class DamagedSearch(ValueError):
    """A saved search that cannot be taken up; the message says what was found and what is expected."""


class MorphismSearch(TuneSearcher):
    """Suggests networks grown from a starting graph.

    The metric is an accuracy (mode 'max') or an error (mode 'min'), 0..1. A suggestion is a dict:
    number (from 0; 0 is the starting graph), graph (text for `morphism.decode`), parent (id of the Tune trial that it grew
    from, None for the starting graph), morphs (from the parent's graph to this one, JSON of `morphism.encode_morph`),
    batch_size, and kernel_size (None where it was not tuned). Suggestions end when nothing new fits the budget.
    """

    def __init__(
        self,
        space: Space,
        searcher: Searcher,
        tuner: Tuner | None,
        seed: int,
        trials_per_round: int,
        metric: str,
        mode: str,
    ) -> None:
        """`trials_per_round`: Tune knows no rounds; after so many suggestions the next begins (space.tuning_from_round).

        Metric and mode are given here, for Tune passes its own on only with a param_space. Raises ValueError.
        """
        if mode not in ("max", "min"):
            raise ValueError(f"the mode is 'max', of an accuracy, or 'min', of an error; not {mode!r}")
        super().__init__(metric=metric, mode=mode)
        if trials_per_round < 1:
            raise ValueError(f"a round holds at least 1 trial, not {trials_per_round!r}")
        self._searcher, self._tuner, self._seed, self._trials_per_round = searcher, tuner, seed, trials_per_round
        self._history = History(space)
        self._observations: list[Observation] = []
        self._numbers: dict[str, int] = {}
        self._ids: dict[int, str] = {}

    @property
    def history(self) -> History:
        """What the search was told so far."""
        return self._history

    # Tune's own FINISHED is a string, which its annotation forgets
    def suggest(self, trial_id: str) -> dict[str, Any] | str:  # type: ignore[override]
        """The next network for a Tune trial; Searcher.FINISHED when nothing new fits the budget."""
        number = len(self._numbers)
        request = Request(number, 1 + number // self._trials_per_round, self._seed)
        try:
            proposal = propose(self._searcher, self._history, request, self._tuner)
        except NothingToPropose:
            return str(TuneSearcher.FINISHED)
        graph = self._history.grown(proposal.parent, proposal.morphs)
        self._numbers[trial_id], self._ids[number] = number, trial_id
        self._tell(
            Proposed(
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
        """Takes a trial's last result; one without the metric, or with NaN, failed.

        Raises ValueError for a metric outside 0..1.
        """
        number = self._numbers.get(trial_id)
        if number is None:
            return  # not of this search: Tune tells every searcher of every trial
        value = None if error or not result else result.get(str(self._metric))
        if value is None or not isfinite(value):
            self._tell(Failed(number))
        else:
            self._tell(Finished(number, float(value) if self._mode == "max" else 1.0 - float(value)))

    def save(self, checkpoint_path: str) -> None:
        """Writes the search as JSON: all that it was told, and by which names Tune knows the trials."""
        saved = {
            "format": FORMAT,
            "start": self._history.space.start.fingerprint,
            "trials": self._numbers,
            "news": [_encoded(observation) for observation in self._observations],
        }
        Path(checkpoint_path).write_text(json.dumps(saved), encoding="utf-8")

    def restore(self, checkpoint_path: str) -> None:
        """Takes up what `save` wrote, in place of what this search knew; raises DamagedSearch."""
        try:
            saved = json.loads(Path(checkpoint_path).read_text(encoding="utf-8"))
            found = (saved["format"], saved["start"])
            numbers = {str(trial): int(number) for trial, number in saved["trials"].items()}
            encoded = list(saved["news"])
        except (ValueError, KeyError, TypeError, AttributeError) as offence:
            raise DamagedSearch(f"{checkpoint_path!r} holds no saved search: {offence!r}") from offence
        expected = (FORMAT, self._history.space.start.fingerprint)
        if found != expected:
            raise DamagedSearch(
                f"{checkpoint_path!r} has format {found[0]!r} and starting graph {found[1]!r}; this search reads format "
                f"{expected[0]!r} and starts from {expected[1]!r}: restore it with the space it was saved with"
            )
        try:
            observations = [_decoded(one) for one in encoded]
            history = History(self._history.space)
            history.tell(observations)
        except (ValueError, KeyError, TypeError, LookupError) as offence:
            raise DamagedSearch(f"{checkpoint_path!r} holds damaged news: {offence!r}") from offence
        self._history, self._observations = history, observations
        self._numbers, self._ids = numbers, {number: trial for trial, number in numbers.items()}

    def _tell(self, observation: Observation) -> None:
        self._history.tell([observation])
        self._observations.append(observation)


def _encoded(observation: Observation) -> dict[str, Any]:
    fields = asdict(observation)
    if isinstance(observation, Proposed):
        fields["morphs"] = [encode_morph(morph) for morph in observation.morphs]
    return {"kind": type(observation).__name__, **fields}


def _decoded(encoded: dict[str, Any]) -> Observation:
    fields = {name: value for name, value in encoded.items() if name != "kind"}
    match encoded["kind"]:
        case "Proposed":
            morphs: tuple[Morph, ...] = tuple([decode_morph(morph) for morph in fields["morphs"]])
            pruned = tuple([Point(**point) for point in fields["pruned"]])
            return Proposed(**{**fields, "morphs": morphs, "pruned": pruned})
        case "Finished":
            return Finished(**fields)
        case "Failed":
            return Failed(**fields)
        case kind:
            raise ValueError(f"news of an unknown kind {kind!r}")
