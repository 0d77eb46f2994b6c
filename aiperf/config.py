"""Configuration of a run as dataclasses, and its composition from the `key=value` words of a command line."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from aiperf.data.dataset_config import DATA_SETS, DataSetConf, SequencesConf
from aiperf.errors import AiperfError, BadConfiguration
from aiperf.option_limits import MOST_MEMORY, FieldLimits, hold, limits_of, type_hints
from aiperf.overrides import Options, Override, check_records, read
from aiperf.preflight import PreflightConf
from aiperf.rules.limits import BENCHMARKS, PACKAGED, WORKLOADS, BenchmarkConf, HpcAi500Conf, LimitsConf, ScheduleConf
from aiperf.system.form import SystemForm, filled
from aiperf.train.trainer_config import TrainerConf, complete
from cluster.faults import FAULTS, FaultConf
from cluster.hosts import HostsConf
from cluster.kubernetes import KubernetesConf
from cluster.place import ClusterConf
from cluster.ray import RayConf
from cluster.simulated import SimulatedConf
from cluster.slurm import SlurmConf
from searchers.batch_sizes import LARGEST_BATCH
from searchers.searcher_config import SEARCHERS, TUNINGS, HpoConf, SearcherConf

CLUSTERS: tuple[type[ClusterConf], ...] = (SimulatedConf, SlurmConf, KubernetesConf, HostsConf, RayConf)
"""Configuration classes by kind. conf/cluster/KIND.yaml contains other options that the choice sets."""

ALL = "all"
"""Value of accelerators_per_worker for one worker over all nodes."""

MAIN = "config.yaml"
"""File with the default choices."""

MISSING: Any = "???"
"""OmegaConf's mark of a required value, defined here because help does not import OmegaConf."""


@dataclass
class BudgetConf:
    """Limits of the growth of networks. They are recorded in the journal, since proposals depend on them."""

    factor: float = field(default=4.0, metadata={"least": 1, "most": 10_000})
    """Largest number of forward operations and of parameters, as a multiple of the starting network's."""
    memory_share: float = field(default=0.9, metadata={"above": 0, "most": 1})
    """Largest training memory at budget.batch images, as a share of the smallest accelerator's memory."""
    memory_bytes: int | None = field(default=None, metadata={"least": 1, "most": MOST_MEMORY})
    """Memory of the smallest accelerator. Default: measured on the workers' nodes. Without accelerators: their memory divided
    by the ranks of a worker. With a value, no worker is refused for having less."""
    batch: int = field(default=32, metadata={"least": 1, "most": LARGEST_BATCH, "unit": "images"})
    """Images per accelerator at which training memory is estimated."""


@dataclass
class BatchConf:
    """Images per accelerator and step: at most 8192, and at most the training images of a rank."""

    default: int = field(default=64, metadata={"least": 1, "most": LARGEST_BATCH, "unit": "images"})
    """Batch before tuning begins. A value of a data set or a schedule is lowered to the training images of a rank."""
    smallest: int | None = field(default=None, metadata={"least": 1, "most": LARGEST_BATCH, "unit": "images"})
    """Smallest batch of tuning. Default: the smaller of batch.default and half the largest."""
    largest: int | None = field(default=None, metadata={"least": 1, "most": LARGEST_BATCH, "unit": "images"})
    """Largest batch of tuning. Default: training images / (20 · ranks). The measured largest batch bounds both."""


@dataclass
class StorageConf:
    """Files in the run's folder."""

    checkpoints: str = field(default="best", metadata={"among": ("best", "all", "none")})
    """Checkpoints kept after the end of a run: the best one with its graph file, all, or none. A run that ended before its
    time keeps all, because it can be resumed."""

    def __post_init__(self) -> None:
        hold(self, "storage")


@dataclass
class RunConf:
    """One run of the benchmark."""

    benchmark: BenchmarkConf = field(default_factory=BenchmarkConf)
    dataset: DataSetConf = MISSING
    schedule: ScheduleConf = field(default_factory=ScheduleConf)
    searcher: SearcherConf = MISSING
    hpo: HpoConf = MISSING
    trainer: TrainerConf = field(default_factory=TrainerConf)
    budget: BudgetConf = field(default_factory=BudgetConf)
    batch: BatchConf = field(default_factory=BatchConf)
    limits: LimitsConf = field(default_factory=LimitsConf)
    preflight: PreflightConf = field(default_factory=PreflightConf)
    storage: StorageConf = field(default_factory=StorageConf)
    system: SystemForm = field(default_factory=SystemForm)
    cluster: ClusterConf | None = None
    """Place of the run. Default: this machine. +cluster=NAME selects another place."""
    name: str | None = field(
        default=None,
        metadata={"form": (r"[\w.-]{1,50}", "part of a folder's name: at most 50 letters, digits, '.', '_' and '-'")},
    )
    """Second half of the run's folder, runs/<time>-<name>. Default: the name of the data set."""
    runs: str = "runs"
    """Folder of all runs."""
    seed: int = field(default=0, metadata={"least": 0})
    """All randomness is derived from it."""
    start: str | None = None
    """Starting network: a name (`python -m aiperf flops` lists them) or a JSON file. Default: that of the data set."""
    executor: str = field(default="ray", metadata={"among": ("ray", "inline")})
    """ray: workers as actors of a Ray cluster. inline: one worker in the driver's process, for debugging."""
    accelerators_per_worker: int | str | None = field(default=None, metadata={"least": 1, "among": (ALL,)})
    """Accelerators of one worker. Default: all of a node. A larger number than a node has makes workers of several whole
    nodes. `all`: one worker over all nodes. With a number, nodes without accelerators are not used."""
    follow: str | None = None
    """List of trials to train from fresh weights instead of a search, so that two machines or two builds do identical work:
    `reference` (for processors), `reference_224` (for accelerators), or an earlier run (a folder, or a name under runs/), of
    which the trials are trained. With resume: the current folder of that run."""
    predict: str | None = None
    """File of `predict --out` with the prediction of this run's score. It is written into the journal before the first
    proposal (docs/prediction.md). Default: no prediction."""
    dry_run: bool = False
    """Print the plan (workers, budget, first graph, its cost, expected epochs, disk) and stop."""
    announcement: str | None = None
    """Id of the run's announcement, as `announce` printed it (docs/ranking.md). The run starts only as announced, and an
    announcement is valid for one run. Default: the run is not announced."""
    announcement_log: str | None = None
    """File of the site's announcements. Required with `announcement`."""
    resume: str | None = None
    """Run to resume. A run that reached its declared time cannot be resumed."""
    resume_until: int | None = field(default=None, metadata={"least": 1, "unit": "lines"})
    """With resume: last line of a damaged journal to keep. The lines after it are moved to another file."""

    def __post_init__(self) -> None:
        hold(self)
        if self.trainer.decay_epochs is None and self.schedule.epochs:
            self.trainer = replace(self.trainer, decay_epochs=self.schedule.epochs[-1])
        if isinstance(self.benchmark, HpcAi500Conf):
            self.benchmark = self.benchmark.with_target(self.dataset.name, self.start)


_CHOSEN: dict[type[Any], tuple[type[Any], ...]] = {
    BenchmarkConf: BENCHMARKS,
    DataSetConf: DATA_SETS,
    SearcherConf: SEARCHERS,
    HpoConf: TUNINGS,
    ClusterConf: CLUSTERS,
    FaultConf: FAULTS,
}
"""Classes to choose from, for parts of a run and for records of lists. The first field of a class is its name."""


def schemas_of_parts() -> dict[str, tuple[type[Any], ...]]:
    """Return the dataclasses that each part of the configuration (such as `dataset`) can have, by the name of the part."""
    return {
        name: _CHOSEN.get(kind, (kind,))
        for name, hint in type_hints(RunConf).items()
        for kind in typing.get_args(hint) or (hint,)
        if isinstance(kind, type) and is_dataclass(kind)
    }


def records_of(schema: type[Any], name: str) -> tuple[type[Any], ...]:
    """Return the dataclasses that the entries of a list option can have."""
    if name not in schema.__dataclass_fields__:
        return ()
    declared: tuple[type[Any], ...] | None = schema.__dataclass_fields__[name].metadata.get("records")
    if declared is not None:
        return declared
    hint = type_hints(schema)[name]
    each = hint.__args__[0] if typing.get_origin(hint) is list else None
    return (each,) if is_dataclass(each) and isinstance(each, type) else ()


def name_of_choice(schema: type[Any]) -> str | None:
    """Name by which a command line chooses this dataclass, 'imagenet' in dataset=imagenet. None if its part has one class."""
    is_chosen = any(schema in several for several in _CHOSEN.values())
    return str(fields(schema)[0].default) if is_chosen else None


def configuration_folder() -> Path:
    """Return the absolute path of the folder conf with the YAML files of the default choices and of all choices."""
    package = Path(__file__).resolve().parent
    folders = (package / "conf", package.parent / "conf")
    for folder in folders:
        if (folder / MAIN).is_file():
            return folder
    listed = " nor in ".join(f"'{folder}'" for folder in folders)
    raise AiperfError(f"the installation is incomplete: there is no {MAIN} in {listed}. Install AIPerf again")


def choices(group: str) -> list[str]:
    """Return the sorted names that GROUP=NAME accepts for a group such as 'dataset'. Empty for an unknown group."""
    return sorted(path.stem for path in (configuration_folder() / group).glob("*.yaml"))


GROUPS = tuple(part for part in schemas_of_parts() if choices(part))


def option_names() -> list[str]:
    """Return the sorted names of all groups and of all options of a run: 'dataset', 'schedule.duration_seconds', …."""
    return list(_options().names)


@cache
def _options() -> Options:
    parts = schemas_of_parts()
    nested = [(part, schema) for part, schemas in parts.items() for schema in schemas]
    own = {each.name for each in fields(RunConf) if each.name not in parts}
    of_parts = {f"{part}.{each.name}" for part, schema in nested for each in fields(schema)}
    known = {
        f"{part}.{name}".lstrip("."): limits
        for part, schema in [("", RunConf), *nested]
        for name, limits in limits_of(schema).items()
        if not records_of(schema, name)
    }
    return Options(
        names=tuple(sorted({*own, *of_parts, *GROUPS})),
        choices={group: tuple(choices(group)) for group in GROUPS},
        absent=frozenset(each.name for each in fields(RunConf) if each.name in parts and each.default is None),
        set_by_choice=frozenset(
            f"{part}.{fields(schema)[0].name}" for part, schema in nested if name_of_choice(schema) is not None
        ),
        texts=frozenset(name for name, limits in known.items() if limits.types == (str,) and not limits.of_list),
        limits=known,
    )


def require_options(words: Sequence[str]) -> None:
    """Check that each word of a command line sets an existing option or group, given once, and that each choice exists."""
    read(words, _options())


@cache
def register() -> None:
    """Register the dataclasses of the configuration with Hydra, which composes the YAML files."""
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    store.store(name="run_schema", node=RunConf)
    for group in GROUPS:
        for schema in schemas_of_parts()[group]:
            store.store(group=group, name=f"{name_of_choice(schema) or group}_schema", node=schema)


def parsed_alone(word: str) -> Override:
    """Parse a word OPTION=VALUE whose group, such as +cluster, may be chosen elsewhere."""
    groups = [f"+{group}={choices(group)[0]}" for group in _options().absent if word.startswith(f"{group}.")]
    return read([*groups, word], _options())[-1]


def limits_for(option: str) -> list[FieldLimits]:
    """Return the limits of an option in each choice that has it. Empty for a list of records."""
    part, _, name = option.rpartition(".")
    schemas = schemas_of_parts().get(part, ()) if part else (RunConf,)
    has = [schema for schema in schemas if name in limits_of(schema) and not records_of(schema, name)]
    return [limits_of(schema)[name] for schema in has]


def with_implied(words: Sequence[str]) -> list[Override]:
    """Return the parsed words of a command line, after those that follow=reference implies."""
    given = read(words, _options())
    # a word of the user's for the same option, or for its group, stands in place of an implied one
    typed = tuple(f"{word.option}{sign}" for word in given for sign in "=.")
    follow = next((word.value for word in given if word.option == "follow"), None)
    return [*read([each for each in PACKAGED.get(str(follow), ()) if not each.startswith(typed)], _options()), *given]


def composed(given: Sequence[Override]) -> dict[str, Any]:
    """Return the options, as nested values, of the groups that are chosen in `given` or by default."""
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf

    register()
    GlobalHydra.instance().clear()
    with initialize_config_dir(version_base="1.3", config_dir=str(configuration_folder())):
        chosen = compose(config_name="config", overrides=[word.text for word in given if word.option in GROUPS])
    plain: Any = OmegaConf.to_container(chosen)
    return dict(plain)


def configure(words: Sequence[str]) -> RunConf:
    given = with_implied(words)
    plain = composed(given)
    for word in given:
        if word.option not in GROUPS:
            _set(plain, word)
    workload = WORKLOADS.get(plain["benchmark"]["name"])
    is_fp32 = plain["trainer"]["precision"] == "fp32" and all(word.option != "batch.default" for word in given)
    if workload is not None and workload.fp32_batch is not None and is_fp32:
        plain["batch"]["default"] = workload.fp32_batch
    dataset = _chosen("dataset", DATA_SETS, plain["dataset"])
    start = plain["start"] or dataset.usual_start
    chosen = {word.option: word.value for word in given if word.option in ("schedule", "schedule.epochs")}
    if dataset.quick_epochs and chosen in ({}, {"schedule": "quick"}):
        plain["schedule"]["epochs"] = [*dataset.quick_epochs]
    complete(plain["trainer"], start, is_tokens=issubclass(dataset, SequencesConf))
    built = from_plain(plain)
    return replace(built, system=filled(built.system))


def _set(plain: dict[str, Any], word: Override) -> None:
    part, _, name = word.option.rpartition(".")
    values = plain[part] if part else plain
    schema = _chosen(part, schemas_of_parts()[part], values) if part else RunConf
    if name not in values:
        owners = [each for each in schemas_of_parts()[part] if name in each.__dataclass_fields__]
        listed = ", ".join(f"{part}={name_of_choice(each)}" for each in owners)
        raise BadConfiguration(
            f"{word.option} goes with {listed}, but another {part} is chosen here: choose one of these, or leave it out"
        )
    if records := records_of(schema, name):
        check_records(word, {name_of_choice(record) or "": record for record in records})
    else:
        limits_of(schema)[name].check_type(word.option, word.value, word.text)
    values[name] = word.value


def as_plain(conf: RunConf) -> dict[str, Any]:
    """Return the configuration as nested JSON values by option, for the first line of the journal."""
    plain = asdict(conf)
    if type(conf.benchmark) is BenchmarkConf:
        del plain["benchmark"]
    return plain


def from_plain(plain: dict[str, Any]) -> RunConf:
    values = {name: value for name, value in plain.items() if name in RunConf.__dataclass_fields__}
    for part, schemas in schemas_of_parts().items():
        # an earlier journal lacks parts that were added later: they keep their defaults
        if part not in plain or (plain[part] is None and part in _options().absent):
            continue
        try:
            values[part] = _part_from_plain(plain[part], schemas, part)
        except msgspec.ValidationError as error:
            raise BadConfiguration(
                f"each option has its type, but {part} in the journal has another: {error}. Restore the journal from a copy"
            ) from error
    if isinstance(values.get("benchmark"), HpcAi500Conf) and "dataset" not in values:
        raise BadConfiguration(
            "a benchmark is of a data set, but the journal has none. Restore the journal from a copy"
        )
    return RunConf(**values)


def _part_from_plain(plain: Any, schemas: tuple[type[Any], ...], part: str) -> Any:
    plain = msgspec.convert(plain, dict[str, Any])
    schema = _chosen(part, schemas, plain)
    made = {
        each.name: [
            msgspec.convert(record, _chosen(f"{part}.{each.name}", several, record))
            for record in msgspec.convert(plain[each.name], list[dict[str, Any]])
        ]
        for each in fields(schema)
        if (several := records_of(schema, each.name)) and each.name in plain
    }
    return replace(msgspec.convert(plain, schema), **made)


def _chosen(part: str, schemas: tuple[type[Any], ...], plain: dict[str, Any]) -> type[Any]:
    named = {name_of_choice(schema): schema for schema in schemas}
    name = None if None in named else str(plain.get(fields(schemas[0])[0].name))
    if name not in named:
        raise BadConfiguration(
            f"{part} is one of {', '.join(map(str, named))}, but the journal holds {str(name)[:80]!r}: read it with the "
            "release that wrote it"
        )
    return named[name]
