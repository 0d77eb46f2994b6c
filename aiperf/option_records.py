"""Options that are lists of records, `cluster.faults=[{kind: crash, rate: 0.1}]`: which records there are, and what they hold.

A function of values, as `option_words` is; whether a value fits its field is for the composition to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aiperf.errors import BadConfiguration
from aiperf.nearest import nearest


@dataclass(frozen=True, slots=True)
class Records:
    """What the records of an option's list hold."""

    names: Mapping[str, tuple[str, ...]]
    """The fields of each kind of record; of the only kind, under ''."""
    chosen_by: str | None = None
    """The field that says which kind a record is of; None: there is one kind."""

    @property
    def written(self) -> str:
        """The form of a record, for a person."""
        if self.chosen_by is not None:
            return f"{{{self.chosen_by}: {self.chosen_by.upper()}, …}}"
        return f"{{{', '.join(f'{name}: …' for name in self.names[''])}}}"

    def of(self, kind: str) -> Records:
        """Those of one kind."""
        return Records({kind: self.names[kind]}, self.chosen_by)


def check_record(record: object, option: str, records: Records) -> None:
    """Raises BadConfiguration where it is none of the records that the option's list takes."""
    if not isinstance(record, dict):
        near = f" (did you mean {{{records.chosen_by}: {record}}}?)" if record in records.names else ""
        raise BadConfiguration(f"{option} is a list of records {records.written}; found {record!r}{near}")
    kind = ""
    if records.chosen_by is not None:
        kinds = tuple(records.names)
        if records.chosen_by not in record:
            raise BadConfiguration(
                f"a record of {option} says its {records.chosen_by}, {records.written}; found {_written(record)}. "
                f"There are {', '.join(kinds)}"
            )
        kind = str(record[records.chosen_by])
        if kind not in kinds:
            raise BadConfiguration(
                f"{option}: there is no {records.chosen_by} {kind!r}{nearest(kind, kinds)}; there are {', '.join(kinds)}"
            )
    for name in record:
        if name != records.chosen_by:
            check_field(str(name), option, records.of(kind))


def check_field(name: str, option: str, records: Records) -> None:
    """Raises BadConfiguration where no kind of these records has such a field."""
    known = tuple(sorted({each for names in records.names.values() for each in names}))
    if name not in known:
        kinds = [kind for kind in records.names if kind]
        whose = f"{kinds[0]} of {option}" if len(kinds) == 1 else f"a record of {option}"
        raise BadConfiguration(
            f"{whose} has no field {name!r}{nearest(name, known)}; it has {', '.join(known) or 'none'}"
        )


def _written(record: Mapping[object, object]) -> str:
    return f"{{{', '.join(f'{name}: {value}' for name, value in record.items())}}}"
