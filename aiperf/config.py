"""The whole configuration of a run, typed; and how `key=value` words on the command line become one.

Hydra composes it from conf/*.yaml, where a group's choices lie; the dataclasses stand beside what they configure, and only
a field's own line holds its default. A misspelt option, group or choice is refused before anything starts.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
from hydra import compose, initialize_config_module
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import MISSING, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from aiperf.data.dataset_config import (
    Cifar10Conf,
    DataSetConf,
    DigitsConf,
    ImagenetConf,
    ImagesConf,
    SyntheticConf,
)
from aiperf.errors import BadConfiguration
from aiperf.rules.limits import LimitsConf, ScheduleConf
from aiperf.train.trainer_config import TrainerConf
from cluster.simulated import ClusterConf, SimulatedConf
from searchers.searcher_config import EvolutionConf, HpoConf, MorphismConf, OffConf, RandomConf, SearcherConf, TpeConf


@dataclass
class BudgetConf:
    """How far networks may grow; recorded in the journal, since a proposal depends on it."""

    factor: float = 4.0
    """Forward operations and parameters: at most so many times the starting graph's."""
    memory_share: float = 0.9
    """Training memory: at most this share of the smallest accelerator's, at `batch` images."""
    memory_bytes: int | None = None
    """Memory of the smallest accelerator; none: read on the nodes of the workers, where they have accelerators, else their
    memory divided by the ranks of a worker. Declared, no worker is refused for having less."""
    batch: int = 32
    """Images per accelerator at which training memory is reckoned."""


@dataclass
class BatchConf:
    """Images per accelerator and step."""

    default: int = 64
    """Before tuning begins."""
    smallest: int | None = None
    """Tuning goes no lower; none: half of the largest that can be chosen, and at most the default."""
    largest: int | None = None
    """Tuning goes no higher; none: training images / (20 · ranks). The measured ceiling bounds both."""


@dataclass
class RunConf:
    """One run of the benchmark."""

    dataset: DataSetConf = MISSING
    schedule: ScheduleConf = field(default_factory=ScheduleConf)
    searcher: SearcherConf = MISSING
    hpo: HpoConf = MISSING
    trainer: TrainerConf = field(default_factory=TrainerConf)
    budget: BudgetConf = field(default_factory=BudgetConf)
    batch: BatchConf = field(default_factory=BatchConf)
    limits: LimitsConf = field(default_factory=LimitsConf)
    cluster: ClusterConf | None = None
    """Where to run: absent means this machine; otherwise +cluster=NAME."""
    name: str | None = None
    """Second half of the run's folder, runs/<time>-<name>; none: the data set's name."""
    runs: str = "runs"
    """Folder of all runs."""
    seed: int = 0
    """Everything random is derived from it."""
    start: str | None = None
    """Starting graph: a name (`python -m aiperf flops` lists them) or a JSON file; none: the data set's usual one."""
    executor: str = "ray"
    """ray: workers as actors of a Ray cluster; inline: one worker inside the driver, for looking into things."""
    accelerators_per_worker: int | None = None
    """Accelerators of one worker, all on one node; none: all of a node. Declared, nodes without accelerators hold no worker."""
    dry_run: bool = False
    """Print the plan (workers, budget, first graph, its cost, expected epochs, disk) and stop."""
    resume: str | None = None
    """Go on with the run in this folder, after whatever end but that of its declared time."""
    resume_until: int | None = None
    """With resume: go on after this line of a damaged journal; what follows it is set aside in a file beside it."""

    def __post_init__(self) -> None:
        if self.trainer.decay_epochs is None and self.schedule.epochs:
            self.trainer = replace(self.trainer, decay_epochs=self.schedule.epochs[-1])


_CHOSEN_BY_NAME: dict[str, tuple[type[Any], ...]] = {
    "dataset": (DigitsConf, ImagesConf, Cifar10Conf, ImagenetConf, SyntheticConf),
    "searcher": (MorphismConf, EvolutionConf, RandomConf),
    "hpo": (TpeConf, OffConf),
}
GROUPS = ("dataset", "schedule", "searcher", "hpo", "trainer", "cluster")


def register() -> None:
    """Makes the typed schemas known to Hydra; harmless when done twice."""
    store = ConfigStore.instance()
    store.store(name="run_schema", node=RunConf)
    for name, schema in (
        ("digits", DigitsConf),
        ("images", ImagesConf),
        ("cifar10", Cifar10Conf),
        ("imagenet", ImagenetConf),
        ("synthetic", SyntheticConf),
    ):
        store.store(group="dataset", name=f"{name}_schema", node=schema)
    store.store(group="schedule", name="schedule_schema", node=ScheduleConf)
    store.store(group="searcher", name="morphism_schema", node=MorphismConf)
    store.store(group="searcher", name="evolution_schema", node=EvolutionConf)
    store.store(group="searcher", name="random_schema", node=RandomConf)
    store.store(group="hpo", name="tpe_schema", node=TpeConf)
    store.store(group="hpo", name="off_schema", node=OffConf)
    store.store(group="trainer", name="trainer_schema", node=TrainerConf)
    store.store(group="cluster", name="simulated_schema", node=SimulatedConf)


def configure(words: Sequence[str]) -> RunConf:
    """The configuration that the words of a command line describe.

    Raises:
        BadConfiguration: an option, group or value that there is not; the message names the nearest right one.
    """
    _check_form(words)
    register()
    GlobalHydra.instance().clear()
    with initialize_config_module(version_base="1.3", config_module="conf"):
        try:
            composed = compose(config_name="config", overrides=list(words))
            built = OmegaConf.to_object(composed)
        except (HydraException, OmegaConfBaseException) as error:
            raise BadConfiguration(_mended(error, words)) from error
    assert isinstance(built, RunConf)
    return built


def as_plain(conf: RunConf) -> dict[str, Any]:
    """The configuration as JSON values, for the journal."""
    return asdict(conf)


def from_plain(plain: dict[str, Any]) -> RunConf:
    """The configuration that a journal's first line holds."""
    told = {name: value for name, value in plain.items() if name in RunConf.__dataclass_fields__}
    for group, schemas in _CHOSEN_BY_NAME.items():
        named = {schema().name: schema for schema in schemas}
        told[group] = msgspec.convert(plain[group], named[plain[group]["name"]])
    simple = {
        "schedule": ScheduleConf,
        "trainer": TrainerConf,
        "budget": BudgetConf,
        "batch": BatchConf,
        "limits": LimitsConf,
    }
    for group, schema in simple.items():
        told[group] = msgspec.convert(plain[group], schema)
    if plain["cluster"] is not None:
        told["cluster"] = msgspec.convert(plain["cluster"], SimulatedConf)
    return RunConf(**told)


def _check_form(words: Sequence[str]) -> None:
    """What Hydra would answer with a traceback or the name of a class of its own."""
    keys = [word.lstrip("+~").partition("=")[0] for word in words]
    for word, key in zip(words, keys, strict=True):
        if "=" not in word and not word.startswith("~"):
            right = f"{key}=…" if key in option_names() else None
            raise BadConfiguration(
                f"an option is written key=value; found {word!r}"
                + (f" (did you mean {right!r}?)" if right else _nearest(key, option_names()))
            )
        if key == "cluster" and not word.startswith(("+", "~")):
            raise BadConfiguration(f"no cluster is named unless one is added: +{word}")
        if key.startswith("cluster.") and "cluster" not in keys:
            raise BadConfiguration(
                f"{word} is about a cluster, and none is named: add +cluster={'|'.join(choices('cluster'))}"
            )


def _mended(error: Exception, words: Sequence[str]) -> str:
    """The library's message, with what was probably meant."""
    while isinstance(error.__cause__, HydraException | OmegaConfBaseException):
        error = error.__cause__
    text = str(error).strip().splitlines()
    message = text[0] if text else type(error).__name__
    key_lines = [line.split(":", 1)[1].strip() for line in text if line.strip().startswith("full_key:")]
    if key_lines and key_lines[0]:
        message = f"{key_lines[0]}: {message}"
    for word in words:
        key, _, value = word.lstrip("+~").partition("=")
        wrong_choice = key in GROUPS and value not in choices(key)
        if wrong_choice:
            return f"{key}={value}: {key} is one of {', '.join(choices(key))}{_nearest(value, choices(key))}"
        if key not in option_names() and re.fullmatch(r"[\w.]+", key):
            return f"there is no option {key!r}{_nearest(key, option_names())}. `python -m aiperf --help` lists them"
        group, _, option = key.partition(".")
        schemas = _CHOSEN_BY_NAME.get(group, ())
        if f"Key '{option}' not in" in message and schemas:
            those = [schema().name for schema in schemas if option in schema.__dataclass_fields__]
            return f"{key} goes with {', '.join(f'{group}={name}' for name in those)}; another {group} is chosen here"
    return message


def _nearest(word: str, right: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, right, n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""


def choices(group: str) -> list[str]:
    """The choices of a group: the files that lie in it."""
    folder = Path(str(__import__("conf").__path__[0])) / group
    return sorted(path.stem for path in folder.glob("*.yaml"))


def schemas_of_groups() -> dict[str, tuple[type[Any], ...]]:
    """The dataclasses behind each part of the configuration."""
    return {
        **_CHOSEN_BY_NAME,
        "schedule": (ScheduleConf,),
        "trainer": (TrainerConf,),
        "budget": (BudgetConf,),
        "batch": (BatchConf,),
        "limits": (LimitsConf,),
        "cluster": (SimulatedConf,),
    }


def option_names() -> list[str]:
    """Every option there is, whatever the choices: 'schedule.duration_seconds', …"""
    groups = schemas_of_groups()
    own = [name for name in RunConf.__dataclass_fields__ if name not in groups]
    nested = {
        f"{group}.{name}"
        for group, schemas in groups.items()
        for schema in schemas
        for name in schema.__dataclass_fields__
    }
    return sorted([*own, *GROUPS, *nested])
