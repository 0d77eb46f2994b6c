"""Options whose value is a path: taken as the shell gives it, whatever Hydra's grammar would make of its characters.

The value of such an option is always one text, so nothing in it is grammar: `runs=/data/a (1), b=c` is that folder. Two forms
keep a meaning: `null` is none, and a value that is wholly in quotes is read as Hydra reads it; `./` before either makes a path
of it. Shells leave `~` after an equals sign: it is expanded here, at the beginning of a path of this machine and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiperf.errors import BadConfiguration
from aiperf.files import given_path

HERE = frozenset(
    {
        "announcement_log",
        "cluster.hostfile",
        "cluster.profile",
        "follow",
        "resume",
        "runs",
        "start",
        "system.file",
    }
)
"""Read or made on the machine where the command is typed."""
ELSEWHERE = frozenset(
    {
        "cluster.data_path",
        "cluster.directory",
        "cluster.python",
        "cluster.runs_path",
        "dataset.index",
        "dataset.root",
        "storage.journal",
    }
)
"""On other machines too, whose homes are others."""
PATHS = HERE | ELSEWHERE
_HARMLESS = {"storage.journal": "shared"}
"""What Hydra is given in the place of a path, where a path alone is no value of the option's form."""


@dataclass(frozen=True, slots=True)
class GivenPath:
    """A word that gives a path."""

    option: str
    value: str
    for_hydra: str
    """The word with a harmless value: Hydra places it, and what it places is replaced."""


def path_of(word: str) -> GivenPath | None:
    """The path that a word gives; None: it gives none, and is Hydra's to read.

    >>> path_of("runs=a, (1)"), path_of("runs=null"), path_of("seed=1")
    (GivenPath(option='runs', value='a, (1)', for_hydra='runs=/path'), None, None)

    Raises BadConfiguration: an empty one.
    """
    key, equals, value = word.partition("=")
    option = key.lstrip("+~")
    if not equals or option not in PATHS or value == "null" or _is_quoted(value):
        return None
    if not value:
        raise BadConfiguration(f"{option} is a path; found nothing after the equals sign of {word!r}")
    return GivenPath(
        option, str(given_path(value)) if option in HERE else value, f"{key}={_HARMLESS.get(option, '/path')}"
    )


def _is_quoted(value: str) -> bool:
    return len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
