"""Place that a run would have in a published list of supercomputers, by FLOPS and by FLOPS per watt.

Lists are CSV files or .xlsx workbooks: zip files of XML parts (ECMA-376, part 1, section 18), of which the first sheet is read.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from xml.etree import ElementTree

from aiperf.errors import BadConfiguration
from aiperf.files import open_regular
from aiperf.given_file import fault_of, read_csv
from aiperf.nearest import nearest
from aiperf.report.facts import Report

COLUMNS = {
    "rank": r"rank",
    "name": r"name|system",
    "computer": r"computer",
    "site": r"site|institution",
    "rmax": r"rmax\b.*",
    "power": r"(total )?power(\W*[(\[].*)?",
}
"""Headers by column, without regard to case. A list may lack the power, the site, and the name or the computer."""
_OPTIONAL = ("name", "computer", "site", "power")
_UNIT_FORMS = {"rmax": r"([kMGTPE]?)flop", "power": r"([kM]?)W"}
"""Units by column, with the prefix as a group."""
UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
NUMBER = re.compile(r"\d{1,3}([, \u00a0\u202f]\d{3})+(\.\d+)?|\d+(\.\d+)?([eE][+-]?\d{1,2})?")
LARGEST = 1e21
"""Largest number of a list. FLOPS of a list in FLOPS are below."""
LARGEST_PART = 64 << 20
"""Bytes of a part after decompression. The sheet of a TOP500 list has about 1 MB."""
WIDEST = 1000
"""Columns that are read."""
_NAMES = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


@dataclass(frozen=True, slots=True)
class ListedSystem:
    rank: int
    name: str
    flops_per_second: float
    """Measured FLOPS of HPL (Rmax)."""
    watts: float | None
    """Power in watts. None if the list does not give it."""

    @property
    def flops_per_watt(self) -> float | None:
        """Measured FLOPS of HPL (Rmax) ÷ power, in FLOPS per watt. None without a power."""
        return None if self.watts is None else self.flops_per_second / self.watts


@dataclass(frozen=True, slots=True)
class Place:
    """Place in a list by one figure. Equal figures share a place."""

    place: int | None
    """1 + entries with a larger figure. None if all are larger: further entries may not be in the list."""
    of: int
    """Number of entries with the figure."""
    above: str | None
    """Name of the next entry with a larger figure. None if there is none."""
    below: str | None
    """Name of the next entry with an equal or smaller figure. None if there is none."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Places of one run in a list. If it has none, `lacks` is the reason."""

    run: str
    lacks: str
    precision: str | None
    """None for a figure that is not of a run."""
    flops_per_second: float | None
    """Score in FLOPS. None without a place, like all further figures."""
    place: Place | None
    flops_per_watt: float | None
    power_scope: str | None
    """Measured part of the machine: 'meters', 'accelerators' or 'processors'."""
    eehpc_level: int | None
    efficiency_place: Place | None
    ratio: float | None
    """FLOPS of the run ÷ Rmax of the entry that --to names. None without --to."""


def read_list(
    path: Path, headers: Mapping[str, str], units: Mapping[str, str] = MappingProxyType({})
) -> list[ListedSystem]:
    """Return the systems of a published list in a CSV or .xlsx file, in its order."""
    rule, fix = "--list is a CSV or .xlsx file", "name such a file, or save it as CSV in UTF-8"
    rows = workbook_rows(path, rule, fix) if is_workbook(path) else read_csv(path, rule, fix, ",;\t")
    lines = [(line, row) for line, row in enumerate(rows, 1) if any(row)]
    header = lines[0][1] if lines else []
    at = {column: _column(column, header, headers.get(column)) for column in COLUMNS}
    if at["name"] is None and at["computer"] is None:
        raise _no_column("name", header)
    factors = {
        column: _unit(f" {units[column]}" if column in units else header[index], column)
        for column in _UNIT_FORMS
        if (index := at[column]) is not None
    }
    entries = []
    for line, row in lines[1:]:
        cells = {column: row[index] for column, index in at.items() if index is not None and index < len(row)}
        rank = int(_number(cells.get("rank", ""), "rank", line))
        called = cells.get("name") or ", ".join(filter(None, map(cells.get, ("computer", "site")))) or f"rank {rank}"
        rmax = factors["rmax"] * _number(cells.get("rmax", ""), "Rmax", line)
        has_watts = cells.get("power", "") not in ("", "-")
        watts = factors["power"] * _number(cells["power"], "power", line) if has_watts else None
        entries.append(ListedSystem(rank, called, rmax, watts))
    if not entries:
        raise BadConfiguration(f"a list has at least one entry, but found none in {str(path)!r}: give a complete file")
    return entries


def named_entry(entries: Sequence[ListedSystem], name: str) -> ListedSystem:
    """Return the one system of a list with `name` in its name, without regard to case."""
    matching = [each for each in entries if name.lower() in each.name.lower()]
    if len(matching) != 1:
        names = [each.name for each in matching or entries]
        hint = nearest(name, names) if not matching else f": {', '.join(names[:5])}"
        raise BadConfiguration(
            f"--to names one entry of the list, but found {name!r} in {len(matching)}{hint}. Give more of its name"
        )
    return matching[0]


def standing(report: Report, entries: Sequence[ListedSystem], to: ListedSystem | None) -> Standing:
    """Places of the score and of FLOPS per watt in a list. `to`: system by whose Rmax the score is divided, or None."""
    run, score, energy = report.run, report.score, report.energy
    lacks = "the run is simulated" if run.is_simulated else "" if score.valid else "the run has no valid score"
    flops = None if lacks else score.flops_per_second
    watts = None if lacks or energy is None else energy.best.flops_per_watt
    rates = [(each.name, each.flops_per_second) for each in entries]
    efficiencies = [(each.name, each.flops_per_watt) for each in entries if each.flops_per_watt is not None]
    return Standing(
        run=run.name,
        lacks=lacks,
        precision=" and ".join(report.hardware.precisions) or "an unknown precision",
        flops_per_second=flops,
        place=None if flops is None else place_of(flops, rates),
        flops_per_watt=watts,
        power_scope=None if watts is None or energy is None else energy.best.scope,
        eehpc_level=None if watts is None or energy is None else energy.level.level,
        efficiency_place=None if watts is None or not efficiencies else place_of(watts, efficiencies),
        ratio=None if flops is None or to is None else flops / to.flops_per_second,
    )


def standing_of_figure(flops: float, entries: Sequence[ListedSystem], to: ListedSystem | None) -> Standing:
    """Return the place that a figure in FLOPS would have in a list of systems."""
    place = place_of(flops, [(each.name, each.flops_per_second) for each in entries])
    ratio = None if to is None else flops / to.flops_per_second
    return Standing("--flops", "", None, flops, place, None, None, None, None, ratio)


def place_of(figure: float, listed: Sequence[tuple[str, float]]) -> Place:
    """1 + the number of larger figures. The place is None if all figures of the list are larger."""
    larger = sorted((each for each in listed if each[1] > figure), key=lambda each: each[1])
    others = sorted((each for each in listed if each[1] <= figure), key=lambda each: -each[1])
    return Place(
        place=len(larger) + 1 if others else None,
        of=len(listed),
        above=larger[0][0] if larger else None,
        below=others[0][0] if others else None,
    )


def _column(column: str, header: Sequence[str], given: str | None) -> int | None:
    """Return the index of a column. None for an optional column that is not there."""
    if given is not None:
        if given not in header:
            raise BadConfiguration(
                f"--column names a header of the list, but found {given!r}{nearest(given, header)}. "
                f"The headers are {', '.join(map(repr, header))}"
            )
        return header.index(given)
    for index, title in enumerate(header):
        if re.fullmatch(COLUMNS[column], title, re.IGNORECASE):
            return index
    if column in _OPTIONAL:
        return None
    raise _no_column(column, header)


def _no_column(column: str, header: Sequence[str]) -> BadConfiguration:
    return BadConfiguration(
        f"a list has the columns rank, name and Rmax, but found no {column} in {', '.join(map(repr, header))}: "
        f"name its header with --column {column}=HEADER"
    )


def _unit(title: str, column: str) -> float:
    match = re.search(rf"[\s(\[]{_UNIT_FORMS[column]}", title, re.IGNORECASE)
    if match is None:
        raise BadConfiguration(
            f"the header of Rmax and power has a unit, but found {title.strip()!r}: name it, as in "
            "--unit rmax=TFlop/s or --unit power=kW"
        )
    prefix = match[1]
    return UNITS[prefix if prefix in UNITS else prefix.swapcase()]


def _number(text: str, column: str, line: int) -> float:
    if NUMBER.fullmatch(text) is None:
        raise BadConfiguration(
            f"{column} is a number such as 1234.5 or 1,234.5, but found {text!r} in line {line} of the list: correct it"
        )
    number = float(re.sub(r"[^\d.eE+-]", "", text))
    if not 0 < number < LARGEST:
        raise BadConfiguration(
            f"{column} is above 0 and below 1e21, but found {text!r} in line {line} of the list: correct it"
        )
    return number


def is_workbook(path: Path) -> bool:
    """Return True for a regular file that begins like a zip file."""
    try:
        with open_regular(path) as file:
            return file.read(4) == b"PK\x03\x04"
    except OSError:
        return False


def workbook_rows(path: Path, rule: str, fix: str) -> list[list[str]]:
    """Return the cells of the first sheet by row, as text without spaces around it."""
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as parts:
            shared = _part(parts, "xl/sharedStrings.xml") if "xl/sharedStrings.xml" in parts.namelist() else None
            sheet = _part(parts, min(name for name in parts.namelist() if name.startswith("xl/worksheets/sheet")))
        texts = [] if shared is None else [_text(each) for each in shared.iter(f"{_NAMES}si")]
        return [_row(row, texts) for row in sheet.iter(f"{_NAMES}row")]
    except (zipfile.BadZipFile, zlib.error, ElementTree.ParseError, OSError, EOFError, ValueError, IndexError,
            NotImplementedError, RuntimeError) as error:  # fmt: skip  # RuntimeError: a password
        raise fault_of(path, rule, fix)(f"is no workbook that can be read ({error})") from error


def _part(parts: zipfile.ZipFile, name: str) -> ElementTree.Element:
    with parts.open(name) as file:
        content = file.read(LARGEST_PART + 1)
    if len(content) > LARGEST_PART:
        raise ValueError(f"{name} has more than {LARGEST_PART} bytes")
    if b"<!DOCTYPE" in content:
        raise ValueError(f"{name} has entities")
    return ElementTree.fromstring(content)  # without entities


def _row(row: ElementTree.Element, texts: list[str]) -> list[str]:
    cells: list[str] = []
    for cell in row.iter(f"{_NAMES}c"):
        letters = re.match(r"[A-Z]{1,3}(?=\d)", cell.get("r", ""))
        if letters is not None:  # empty cells are left out
            column = 0
            for letter in letters[0]:
                column = 26 * column + ord(letter) - ord("A") + 1
            cells += [""] * min(column - 1 - len(cells), WIDEST)
        value = cell.findtext(f"{_NAMES}v", "")
        kind = cell.get("t")
        text = texts[int(value)] if kind == "s" else _text(cell) if kind == "inlineStr" else value
        cells.append(text.strip())
    return cells


def _text(element: ElementTree.Element) -> str:
    """Return the text of an element, which may have parts in different fonts. Readings of Asian characters are left out."""
    return "".join(
        part.text or ""
        for run in (element, *element.iter(f"{_NAMES}r"), *element.iter(f"{_NAMES}is"))
        for part in run.findall(f"{_NAMES}t")
    )
