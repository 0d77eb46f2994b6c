"""Configuration of searchers and tuning: one dataclass for each choice in conf/. `build()` imports the libraries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from searchers.evolution import Evolution, RandomSearch
    from searchers.history import Searcher
    from searchers.morphing import Morphing
    from searchers.tpe import Tpe


@dataclass
class SearcherConf:
    """Search of architectures."""

    name: str = "???"
    """Name of the searcher, set by the choice of the group."""

    def build(self) -> Searcher:
        """Return the searcher with these options. Its libraries are imported by this call."""
        raise NotImplementedError


@dataclass
class HpoConf:
    """Tuning of hyperparameters."""

    name: str = "???"
    """Name of the tuning, set by the choice of the group."""

    def build(self) -> Tpe | None:
        """Return the tuner of batch size and kernel size with these options. None for no tuning."""
        raise NotImplementedError


@dataclass
class MorphismConf(SearcherConf):
    """Network morphism guided by Bayesian optimisation."""

    name: str = "morphism"
    """'morphism'."""
    parents: int = field(default=6, metadata={"least": 1, "most": 100_000})
    """Number of parents drawn for a proposal. Better parents are drawn more often."""
    candidates: int = field(default=128, metadata={"least": 1, "most": 100_000})
    """Children drawn and compared for a proposal, over all parents."""
    morphs: int = field(default=2, metadata={"least": 1, "most": 100})
    """Largest number of morphs of a child. The number is drawn from 1 to this value."""
    beta: float = field(default=2.0, metadata={"least": 0, "most": 1000})
    """Standard deviations in the upper confidence bound. 0 is pure exploitation, larger values explore more."""

    def build(self) -> Morphing:
        from searchers.morphing import Morphing

        return Morphing(self.parents, self.candidates, self.morphs, self.beta)


@dataclass
class EvolutionConf(SearcherConf):
    """(μ + λ) evolution with a tournament."""

    name: str = "evolution"
    """'evolution'."""
    tournament: int = field(default=4, metadata={"least": 1, "most": 100_000})
    """Trials drawn from the best 16. The best drawn trial becomes the parent."""
    morphs: int = field(default=2, metadata={"least": 1, "most": 100})
    """Largest number of morphs of a child. The number is drawn from 1 to this value."""

    def build(self) -> Evolution:
        from searchers.evolution import Evolution

        return Evolution(self.tournament, self.morphs)


@dataclass
class RandomConf(SearcherConf):
    """Random growth: the baseline."""

    name: str = "random"
    """'random'."""
    morphs: int = field(default=2, metadata={"least": 1, "most": 100})
    """Largest number of morphs of a child. The number is drawn from 1 to this value."""

    def build(self) -> RandomSearch:
        from searchers.evolution import RandomSearch

        return RandomSearch(self.morphs)


@dataclass
class TpeConf(HpoConf):
    """Tuning of batch size and kernel size by Optuna's TPE."""

    name: str = "tpe"
    """'tpe'."""
    startup_trials: int = field(default=10, metadata={"least": 0, "most": 1_000_000})
    """Random trials before TPE starts."""
    candidates: int = field(default=24, metadata={"least": 1, "most": 100_000})
    """Points that TPE draws and compares."""

    def build(self) -> Tpe:
        from searchers.tpe import Tpe  # imports Optuna, which is slow

        return Tpe(self.startup_trials, self.candidates)


@dataclass
class OffConf(HpoConf):
    """No tuning: the default batch size in every round, and the kernels of the searched networks."""

    name: str = "off"
    """'off'."""

    def build(self) -> None:
        return


SEARCHERS: tuple[type[SearcherConf], ...] = (MorphismConf, EvolutionConf, RandomConf)
"""Choices of the group `searcher`, see conf/searcher/NAME.yaml."""
TUNINGS: tuple[type[HpoConf], ...] = (TpeConf, OffConf)
"""Choices of the group `hpo`, see conf/hpo/NAME.yaml."""
