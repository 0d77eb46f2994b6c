"""How searching and tuning are configured: a structured config for each, with what it builds.

Fields are plain so that Hydra can merge them; `build()` makes the searcher or tuner. `name` is the choice in conf/.
What a searcher is made of (numpy, scipy, Optuna) is loaded by `build()` alone: help reads these classes, and builds none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from searchers.evolution import Evolution
    from searchers.history import Searcher
    from searchers.morphing import Morphing
    from searchers.propose import Tuner
    from searchers.random_search import RandomSearch


class UnusableConf(ValueError):
    """A configured value that makes no searcher."""


@dataclass
class SearcherConf:
    """What chooses architectures."""

    name: str = "???"
    """Which searcher; set by the choice of the group."""

    def build(self) -> Searcher:
        """The searcher; raises UnusableConf."""
        raise UnusableConf(f"a searcher is one of {_names(SEARCHERS)}; none was chosen")


@dataclass
class HpoConf:
    """What tunes hyperparameters."""

    name: str = "???"
    """Which tuning; set by the choice of the group."""

    def build(self) -> Tuner | None:
        """The tuner, None for no tuning; raises UnusableConf."""
        raise UnusableConf(f"hpo is one of {_names(TUNINGS)}; none was chosen")


@dataclass
class MorphismConf(SearcherConf):
    """Network morphism guided by Bayesian optimisation."""

    name: str = "morphism"
    """'morphism'."""
    parents: int = field(default=6, metadata={"least": 1, "most": 100_000})
    """How many of the best parents are drawn for a proposal, the better the likelier."""
    candidates: int = field(default=128, metadata={"least": 1, "most": 100_000})
    """Children that are drawn and compared for a proposal, over all parents."""
    morphs: int = field(default=2, metadata={"least": 1, "most": 100})
    """The most morphs of a child; from 1 to this many are drawn."""
    beta: float = field(default=2.0, metadata={"least": 0, "most": 1000})
    """Standard deviations in the upper confidence bound: 0 only exploits, larger explores more; at 1000 nothing else counts."""

    def build(self) -> Morphing:
        """The searcher."""
        from searchers.morphing import Morphing

        return Morphing(self.parents, self.candidates, self.morphs, self.beta)


@dataclass
class EvolutionConf(SearcherConf):
    """(μ + λ) evolution with a tournament."""

    name: str = "evolution"
    """'evolution'."""
    tournament: int = field(default=4, metadata={"least": 1, "most": 100_000})
    """Trials drawn from the best 16, the best of which becomes the parent."""
    morphs: int = field(default=2, metadata={"least": 1, "most": 100})
    """The most morphs of a child; from 1 to this many are drawn."""

    def build(self) -> Evolution:
        """The searcher."""
        from searchers.evolution import Evolution

        return Evolution(self.tournament, self.morphs)


@dataclass
class RandomConf(SearcherConf):
    """Random growth: the baseline."""

    name: str = "random"
    """'random'."""
    morphs: int = field(default=2, metadata={"least": 1, "most": 100})
    """The most morphs of a child; from 1 to this many are drawn."""

    def build(self) -> RandomSearch:
        """The searcher."""
        from searchers.random_search import RandomSearch

        return RandomSearch(self.morphs)


@dataclass
class TpeConf(HpoConf):
    """Tuning of batch size and kernel size by Optuna's TPE."""

    name: str = "tpe"
    """'tpe'."""
    startup_trials: int = field(default=10, metadata={"least": 0, "most": 1_000_000})
    """Trials before which points are drawn at random."""
    candidates: int = field(default=24, metadata={"least": 1, "most": 100_000})
    """Points that TPE draws and compares."""

    def build(self) -> Tuner:
        """The tuner."""
        from searchers.tpe import Tpe  # Optuna takes a good part of a second, and most runs' driver never tunes itself

        return Tpe(self.startup_trials, self.candidates)


@dataclass
class OffConf(HpoConf):
    """No tuning: the default batch size in every round, kernels as the search made them."""

    name: str = "off"
    """'off'."""

    def build(self) -> None:
        """No tuner."""
        return


SEARCHERS: tuple[type[SearcherConf], ...] = (MorphismConf, EvolutionConf, RandomConf)
"""All that can be chosen, under their names; conf/searcher/NAME.yaml holds what a choice sets besides."""
TUNINGS: tuple[type[HpoConf], ...] = (TpeConf, OffConf)
"""Likewise; conf/hpo/NAME.yaml."""


def _names(schemas: Sequence[type[SearcherConf] | type[HpoConf]]) -> str:
    return ", ".join(repr(schema().name) for schema in schemas)
