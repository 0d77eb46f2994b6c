"""Table of the checks for a first run on an accelerator, on a machine without one."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tools import first_contact
from tools.first_contact import CHECKS, NO_DEVICE, Check, has_accelerator

ROOT = Path(__file__).parents[2]


def call(folder: Path, *checks: str, seconds: str = "570") -> list[list[str]]:
    """Return the cells of the rows that a call prints."""
    table = subprocess.run(
        ["bash", "tools/first_contact.sh", str(folder), *checks],
        cwd=ROOT,
        env=os.environ | {"SECONDS_A_CALL": seconds},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    assert (folder / "table.md").read_text() == table
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


@pytest.mark.skipif(has_accelerator(), reason="an accelerator is here")
def test_a_call_without_accelerators_has_a_row_for_each_check(tmp_path: Path) -> None:
    rows = call(tmp_path, seconds="1")

    assert [row[0] for row in rows] == [one.name for one in CHECKS]
    for row, one in zip(rows, CHECKS, strict=True):
        assert row[2:] == (["the call's time is over", "next call"] if one.on_cpu else [NO_DEVICE, "not run"])


@pytest.mark.skipif(has_accelerator(), reason="an accelerator is here")
def test_a_finished_check_is_not_repeated(tmp_path: Path) -> None:
    (first,) = call(tmp_path, "versions")
    assert first[3] == "passed"
    kept = tmp_path / "versions.json"
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"measured": "as before"}))

    assert call(tmp_path, "versions") == [["versions", first[1], "as before", "passed"]]


def test_a_check_that_raises_or_hangs_is_a_failed_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path) -> tuple[str, str]:
        raise RuntimeError("capture refused\nmore")

    one = Check("fails", "nothing", 10, fail, on_cpu=True)
    monkeypatch.setattr(first_contact, "CHECKS", [one])
    first_contact.run_one("fails", tmp_path)
    assert json.loads((tmp_path / "fails.result").read_text()) == ["RuntimeError: capture refused", "failed"]

    row = first_contact.row_of(Check("versions", "a build", 0.1, fail), tmp_path, 0.1)
    assert (row.measured, row.verdict) == ("no result in 0 s", "failed")


def test_every_check_fits_into_a_call() -> None:
    assert all(one.seconds < 560 for one in CHECKS)
