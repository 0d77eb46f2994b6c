"""Reader of the first sheet of an .xlsx workbook: a zip file of XML parts (ECMA-376, part 1, section 18)."""

from __future__ import annotations

import re
import zipfile
import zlib
from pathlib import Path
from xml.etree import ElementTree

from aiperf.files import open_regular
from aiperf.given_file import fault_of

LARGEST = 64 << 20
"""Bytes of a part after decompression. The sheet of a TOP500 list has about 1 MB."""
WIDEST = 1000
"""Columns that are read."""
_NAMES = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


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
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"{name} has more than {LARGEST} bytes")
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
        found = texts[int(value)] if kind == "s" else _text(cell) if kind == "inlineStr" else value
        cells.append(found.strip())
    return cells


def _text(element: ElementTree.Element) -> str:
    """Return the text of an element, which may have parts in different fonts. Readings of Asian characters are left out."""
    return "".join(
        part.text or ""
        for run in (element, *element.iter(f"{_NAMES}r"), *element.iter(f"{_NAMES}is"))
        for part in run.findall(f"{_NAMES}t")
    )
