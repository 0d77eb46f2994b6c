"""Table of the checks for a first run on an accelerator, on a machine without one."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch

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


@pytest.mark.parametrize(
    ("node", "near", "outcome"), [("1", "2-3", "passed"), ("1", "0-3", "failed"), ("-1", "0-3", "look")]
)
def test_a_rank_belongs_on_the_node_of_its_accelerator(node: str, near: str, outcome: str, tmp_path: Path) -> None:
    device, processors = tmp_path / "bus/pci/devices/0000:3b:00.0", tmp_path / "devices/system/node/node1"
    device.mkdir(parents=True)
    (device / "numa_node").write_text(f"{node}\n")
    (device / "local_cpulist").write_text(f"{near}\n")
    for cpu in (2, 3):
        (processors / f"cpu{cpu}").mkdir(parents=True)

    measured, found = first_contact.numa_of(["0000:3b:00.0"] * 2, {0, 1, 2, 3}, tmp_path)

    assert found == outcome
    assert measured.startswith(f"0: node {'unknown' if node == '-1' else node}, ")


def test_find_mode_is_measured_on_rocm_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (find,) = (one for one in CHECKS if one.name == "miopen-find")
    assert torch.version.hip is not None or find.measure(tmp_path)[1] == "not run"
    assert first_contact.first_step("resnet20", 32, 2, "cpu") > 0

    def measured(name: str, *options: str, **environment: str) -> str:
        return "a warning\n9.0\n" if environment.get("MIOPEN_FIND_MODE") == "FAST" else "1200.0\n"

    monkeypatch.setattr(torch.version, "hip", "7.0")
    monkeypatch.setattr(first_contact, "module", measured)
    assert find.measure(tmp_path) == ("1200 s, with FAST 9 s", "failed")


@pytest.mark.slow  # decodes for 20 s
def test_the_rate_of_a_decoder_is_measured(tmp_path: Path) -> None:
    (row,) = call(tmp_path, "input-cpu")
    assert row[0] == "input-cpu" and row[3] == "look" and "images/s on" in row[2]


def test_every_check_fits_into_a_call() -> None:
    assert all(one.seconds < 560 for one in CHECKS)
