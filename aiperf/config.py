"""The whole configuration of a run, typed; and how `key=value` words on the command line become one.

Hydra composes it from conf/*.yaml, where a group's choices lie; the dataclasses stand beside what they configure, and only
a field's own line holds its default. A misspelt option, group or choice is refused before anything starts.
Hydra is loaded when something is composed: what only reads the classes (help, hints, a journal's first line) does without.
"""

from __future__ import annotations

import functools
import operator
import re
import types
import typing
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from aiperf.conf_folder import configuration_folder
from aiperf.data.dataset_config import DATA_SETS, DataSetConf
from aiperf.errors import BadConfiguration
from aiperf.journal.storage_config import StorageConf
from aiperf.option_limits import MOST_MEMORY, hold
from aiperf.option_paths import path_of
from aiperf.option_records import Records, check_field, check_record
from aiperf.option_words import Options, check, fields_of_records
from aiperf.preflight.preflight_config import PreflightConf
from aiperf.rules.limits import LimitsConf, ScheduleConf
from aiperf.system.description.form import SystemForm, filled
from aiperf.train.trainer_config import LARGEST_BATCH, TrainerConf
from cluster.faults import FAULTS, FaultConf
from cluster.kinds import CLUSTERS
from cluster.place import ClusterConf
from searchers.searcher_config import SEARCHERS, TUNINGS, HpoConf, SearcherConf

ALL = "all"
"""accelerators_per_worker: one worker of everything."""

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from omegaconf.errors import OmegaConfBaseException

MISSING: Any = "???"
"""OmegaConf's sign for a value that is to be given, spelt out: help reads these classes without OmegaConf."""


@dataclass
class BudgetConf:
    """How far networks may grow; recorded in the journal, since a proposal depends on it."""

    factor: float = field(default=4.0, metadata={"least": 1, "most": 10_000})
    """Forward operations and parameters: at most so many times the starting graph's."""
    memory_share: float = field(default=0.9, metadata={"above": 0, "most": 1})
    """Training memory: at most this share of the smallest accelerator's, at `batch` images."""
    memory_bytes: int | None = field(default=None, metadata={"least": 1, "most": MOST_MEMORY})
    """Memory of the smallest accelerator; none: read on the nodes of the workers, where they have accelerators, else their
    memory divided by the ranks of a worker. Declared, no worker is refused for having less."""
    batch: int = field(default=32, metadata={"least": 1, "most": LARGEST_BATCH, "unit": "images"})
    """Images per accelerator at which training memory is reckoned."""

    def __post_init__(self) -> None:
        hold(self, "budget")


@dataclass
class BatchConf:
    """Images per accelerator and step; none is above 8192, and what is typed is at most a rank's training images."""

    default: int = field(default=64, metadata={"least": 1, "most": LARGEST_BATCH, "unit": "images"})
    """Before tuning begins; where a data set or a schedule has chosen it, at most a rank's training images."""
    smallest: int | None = field(default=None, metadata={"least": 1, "most": LARGEST_BATCH, "unit": "images"})
    """Tuning goes no lower; none: half of the largest that can be chosen, and at most the default."""
    largest: int | None = field(default=None, metadata={"least": 1, "most": LARGEST_BATCH, "unit": "images"})
    """Tuning goes no higher; none: training images / (20 · ranks). The measured ceiling bounds both."""

    def __post_init__(self) -> None:
        hold(self, "batch")


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
    preflight: PreflightConf = field(default_factory=PreflightConf)
    storage: StorageConf = field(default_factory=StorageConf)
    system: SystemForm = field(default_factory=SystemForm)
    cluster: ClusterConf | None = None
    """Where to run: absent means this machine; otherwise +cluster=NAME."""
    name: str | None = field(
        default=None,
        metadata={"form": (r"[\w.-]+", "part of a folder's name: letters, digits, '.', '_' and '-'")},
    )
    """Second half of the run's folder, runs/<time>-<name>; none: the data set's name."""
    runs: str = "runs"
    """Folder of all runs."""
    seed: int = field(default=0, metadata={"least": 0})
    """Everything random is derived from it."""
    start: str | None = None
    """Starting graph: a name (`python -m aiperf flops` lists them) or a JSON file; none: the data set's usual one."""
    executor: str = field(default="ray", metadata={"among": ("ray", "inline")})
    """ray: workers as actors of a Ray cluster; inline: one worker inside the driver, for looking into things."""
    accelerators_per_worker: int | str | None = field(default=None, metadata={"least": 1, "among": (ALL,)})
    """Accelerators of one worker; none: all of a node. More than a node has: a worker of several whole nodes. all: one worker
    of everything, also on nodes without accelerators. A number declared, those hold no worker."""
    metrics_port: int | None = field(default=None, metadata={"least": 1, "most": 65535})
    """Port of Ray's Prometheus endpoint on the driver's host, with the run's figures in it (docs/observability.md); none: no
    endpoint. On loopback where the run is on this machine alone; else it is open to all who reach that host."""
    follow: str | None = None
    """Train the trials of this earlier run (a folder, or a name under runs/) in their order instead of searching: two machines,
    or two builds of one, do identical work. Never ranked. With resume: where that run lies now."""
    dry_run: bool = False
    """Print the plan (workers, budget, first graph, its cost, expected epochs, disk) and stop."""
    announcement: str | None = None
    """Id of the run's announcement, as `announce` printed it (docs/submission.md): the run begins only as it was announced, and
    the announcement serves once. None: the run is not announced."""
    announcement_log: str | None = None
    """The file of the site's announcements; goes with announcement."""
    resume: str | None = None
    """Go on with the run in this folder, after whatever end but that of its declared time."""
    resume_until: int | None = field(default=None, metadata={"least": 1, "unit": "lines"})
    """With resume: go on after this line of a damaged journal; what follows it is set aside in a file beside it."""

    def __post_init__(self) -> None:
        hold(self)
        if self.trainer.decay_epochs is None and self.schedule.epochs:
            self.trainer = replace(self.trainer, decay_epochs=self.schedule.epochs[-1])


_CHOSEN: dict[type[Any], tuple[type[Any], ...]] = {
    DataSetConf: DATA_SETS,
    SearcherConf: SEARCHERS,
    HpoConf: TUNINGS,
    ClusterConf: CLUSTERS,
    FaultConf: FAULTS,
}
"""Parts of a run, and records of lists, of which one class among several is chosen. The first field says which it is."""


def schemas_of_parts() -> dict[str, tuple[type[Any], ...]]:
    """The dataclasses that each part of the configuration may be, as the fields of RunConf say."""
    hints = _type_hints(RunConf)
    kinds = {each.name: _without_none(hints[each.name]) for each in fields(RunConf)}
    parts: dict[str, type[Any]] = {
        name: kind for name, kind in kinds.items() if isinstance(kind, type) and is_dataclass(kind)
    }
    return {name: _CHOSEN.get(part, (part,)) for name, part in parts.items()}


_TYPE_HINTS: dict[type[Any], dict[str, Any]] = {}


def _type_hints(schema: type[Any]) -> dict[str, Any]:
    """Worked out once: it compiles every annotation of the class."""
    if schema not in _TYPE_HINTS:
        _TYPE_HINTS[schema] = typing.get_type_hints(schema)
    return _TYPE_HINTS[schema]


def _without_none(hint: Any) -> Any:
    if isinstance(hint, types.UnionType):
        return functools.reduce(operator.or_, (each for each in hint.__args__ if each is not types.NoneType))
    return hint


def _type_of(node: DictConfig) -> type[Any]:
    """The dataclass that a node of the composed configuration will become."""
    from omegaconf import OmegaConf

    found = OmegaConf.get_type(node)
    assert found is not None, "every part and record has a schema"
    return found


def records_of(schema: type[Any], name: str) -> tuple[type[Any], ...]:
    """The dataclasses that a record of a field may be, where there is such a field and it is a list of records; else none."""
    if name not in schema.__dataclass_fields__:
        return ()
    told: tuple[type[Any], ...] | None = schema.__dataclass_fields__[name].metadata.get("records")
    if told is not None:
        return told
    hint = _type_hints(schema)[name]
    each = hint.__args__[0] if typing.get_origin(hint) is list else None
    return (each,) if is_dataclass(each) and isinstance(each, type) else ()


def _as_words(schemas: tuple[type[Any], ...]) -> Records:
    names = {name_of_choice(each) or "": tuple(one.name for one in fields(each)) for each in schemas}
    if "" in names:
        return Records(names)
    chosen_by = fields(schemas[0])[0].name
    return Records({name: tuple(one for one in those if one != chosen_by) for name, those in names.items()}, chosen_by)


def name_of_choice(schema: type[Any]) -> str | None:
    """The name under which a class is chosen, as the journal holds it; None for a part that is always the same class."""
    is_chosen = any(schema in several for several in _CHOSEN.values())
    return str(fields(schema)[0].default) if is_chosen else None


def choices(group: str) -> list[str]:
    """The choices of a group: the files that lie in it."""
    return sorted(path.stem for path in (configuration_folder() / group).glob("*.yaml"))


GROUPS = tuple(part for part in schemas_of_parts() if choices(part))


def option_names() -> list[str]:
    """Every option there is, whatever the choices: 'schedule.duration_seconds', …"""
    return list(_options().known)


@cache
def _options() -> Options:
    parts = schemas_of_parts()
    own = [each.name for each in fields(RunConf) if each.name not in parts]
    nested = {f"{part}.{each.name}" for part, schemas in parts.items() for schema in schemas for each in fields(schema)}
    return Options(
        names=tuple(sorted([*own, *nested])),
        choices={group: tuple(choices(group)) for group in GROUPS},
        absent=frozenset(each.name for each in fields(RunConf) if each.name in parts and each.default is None),
        set_by_choice=frozenset(
            f"{part}.{fields(schema)[0].name}"
            for part, schemas in parts.items()
            for schema in schemas
            if name_of_choice(schema) is not None
        ),
        records={
            f"{part}.{each.name}": _as_words(records)
            for part, schemas in parts.items()
            for schema in schemas
            for each in fields(schema)
            if (records := records_of(schema, each.name))
        },
    )


def require_options(words: Sequence[str]) -> None:
    """Raises BadConfiguration for the first word that names no option; `configure` looks at all else of it."""
    check(words, _options())


@cache
def register() -> None:
    """Makes the typed schemas known to Hydra, as NAME_schema for conf/GROUP/NAME.yaml: once, as it takes a third as long as
    composing does."""
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    store.store(name="run_schema", node=RunConf)
    for group in GROUPS:
        for schema in schemas_of_parts()[group]:
            store.store(group=group, name=f"{name_of_choice(schema) or group}_schema", node=schema)


def configure(words: Sequence[str]) -> RunConf:
    """The configuration that the words of a command line describe.

    Raises:
        BadConfiguration: an option, group or value that there is not; the message names the nearest right one.
    """
    check(words, _options())
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    register()
    of_records, paths = fields_of_records(words), {word: path_of(word) for word in words}
    for_hydra = [word if (path := paths[word]) is None else path.for_hydra for word in words if word not in of_records]
    GlobalHydra.instance().clear()
    with initialize_config_dir(version_base="1.3", config_dir=str(configuration_folder())):
        try:
            composed = compose(config_name="config", overrides=for_hydra)
            _make_records(composed)
            for word, (option, index, name, value) in of_records.items():
                _set_field(composed, word, option, index, name, value)
            built = OmegaConf.to_object(composed)
        except (HydraException, OmegaConfBaseException) as error:
            raise BadConfiguration(_told(_first_cause(error), words)) from error
    assert isinstance(built, RunConf)
    for path in paths.values():
        if path is not None:
            part, _, name = path.option.rpartition(".")
            setattr(getattr(built, part) if part else built, name, path.value)
    return replace(built, system=filled(built.system))


def _make_records(composed: DictConfig) -> None:
    """Makes each record of a list the class that its first field chooses: Hydra's schemas know no list of several classes."""
    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import ValidationError

    for option, records in _options().records.items():
        held = OmegaConf.select(composed, option)
        if records.chosen_by is None or held is None:
            continue
        part, _, name = option.partition(".")
        classes = {name_of_choice(each): each for each in records_of(_type_of(composed[part]), name)}
        for index, record in enumerate(held):
            check_record(OmegaConf.to_container(record) if isinstance(record, DictConfig) else record, option, records)
            kind = classes[record[records.chosen_by]]
            try:
                held[index] = OmegaConf.merge(OmegaConf.structured(kind), record)
            except ValidationError as error:
                name = str(error.full_key)
                raise BadConfiguration(
                    f"{option}.{index}.{name} is {_law_of(kind, name)}; found {record[name]}: give such a value, or leave "
                    "it out"
                ) from error


def _set_field(composed: DictConfig, word: str, option: str, index: int, name: str, value: object) -> None:
    from omegaconf import OmegaConf
    from omegaconf.errors import ValidationError

    held = OmegaConf.select(composed, option)
    if not 0 <= index < len(held):
        there = f"is empty, so there is no record {index}" if not held else f"has records 0 to {len(held) - 1}"
        raise BadConfiguration(f"{option} {there}; found {word}")
    kind = _type_of(held[index])
    check_field(name, option, _as_words((kind,)))
    try:
        held[index][name] = value
    except ValidationError as error:
        raise BadConfiguration(
            f"{option}.{index}.{name} is {_law_of(kind, name)}; found {word}: give such a value, or leave it out"
        ) from error


def _first_cause(error: BaseException) -> OmegaConfBaseException:
    """What Hydra wrapped. Whatever else it may refuse was checked before: that would be a fault of ours, and flies on."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    while isinstance(error.__cause__, HydraException | OmegaConfBaseException):
        error = error.__cause__
    if not isinstance(error, OmegaConfBaseException):
        raise error
    return error


def _told(error: OmegaConfBaseException, words: Sequence[str]) -> str:
    """From the kind of the error and the option it is about: its text is the library's matter."""
    from omegaconf.errors import ConfigAttributeError, ConfigKeyError, ValidationError

    option = re.sub(r"\[\d+\]$", "", str(error.full_key or ""))  # of an entry of a list: the list
    if (
        not option
        and len(of_options := [key for word in words if (key := word.partition("=")[0]) in _options().known]) == 1
    ):
        (option,) = of_options  # OmegaConf 2.3 does not always say which it was about
    found = next((word for word in words if word.lstrip("+").partition("=")[0] == option), " ".join(words))
    part, _, name = option.partition(".")
    schemas = schemas_of_parts().get(part, (RunConf,))
    lists = {word.partition("=")[0] for word in words} & _options().records.keys()
    if option not in _options().known and len(lists) == 1:  # of a record, OmegaConf names the field alone
        (held,) = lists
        part, _, of_part = held.partition(".")
        schemas = tuple(each for schema in schemas_of_parts()[part] for each in records_of(schema, of_part))
        option, name = f"{held}: {option}", option
    of = [schema for schema in schemas if (name or part) in schema.__dataclass_fields__]
    if isinstance(error, ConfigKeyError | ConfigAttributeError):
        if not of:
            return f"there is no {option!r}; found {found}"
        # Whether it is an option at all was checked before: so it is one of another choice.
        those = ", ".join(f"{part}={name_of_choice(schema)}" for schema in of)
        return f"{option} goes with {those}; another {part} is chosen here"
    if isinstance(error, ValidationError) and of:
        return f"{option} is {_law_of(of[0], name or part)}; found {found}: give such a value, or leave it out"
    return f"{option or 'a value'} cannot be made of {found} ({type(error).__name__})"


_LAWS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def _law_of(schema: type[Any], name: str) -> str:
    """What fits a field of a dataclass, in words."""
    records = records_of(schema, name)
    return f"a list of records {_as_words(records).written}" if records else _law(_type_hints(schema)[name])


def _law(hint: Any) -> str:
    """What fits a field, in words.

    >>> _law(int | None), _law(list[float])
    ('a whole number or null', 'a list, each of which is a number')
    """
    if isinstance(hint, types.UnionType):
        return " or ".join("null" if each is types.NoneType else _law(each) for each in hint.__args__)
    if typing.get_origin(hint) is list:
        return f"a list, each of which is {_law(hint.__args__[0])}"
    return _LAWS[hint]


def as_plain(conf: RunConf) -> dict[str, Any]:
    """The configuration as JSON values, for the journal."""
    return asdict(conf)


def from_plain(plain: dict[str, Any]) -> RunConf:
    """The configuration that a journal's first line holds.

    Raises:
        BadConfiguration: a part is none that can be chosen here.
    """
    told = {name: value for name, value in plain.items() if name in RunConf.__dataclass_fields__}
    for part, schemas in schemas_of_parts().items():
        if plain.get(part) is not None:  # a part that a journal lacks came later: it is as it is by default
            told[part] = _part_from_plain(plain[part], _chosen(part, schemas, plain[part]), part)
    return RunConf(**told)


def _part_from_plain(plain: dict[str, Any], schema: type[Any], part: str) -> Any:
    records = {each.name: records_of(schema, each.name) for each in fields(schema)}
    made = {
        name: [msgspec.convert(record, _chosen(f"{part}.{name}", several, record)) for record in plain[name]]
        for name, several in records.items()
        if several and name in plain
    }
    return replace(msgspec.convert(plain, schema), **made)


def _chosen(part: str, schemas: tuple[type[Any], ...], plain: dict[str, Any]) -> type[Any]:
    named = {name_of_choice(schema): schema for schema in schemas}
    name = None if None in named else plain[fields(schemas[0])[0].name]
    if name not in named:
        raise BadConfiguration(f"{part} is one of {', '.join(map(str, named))}; the journal holds {name!r}")
    return named[name]
