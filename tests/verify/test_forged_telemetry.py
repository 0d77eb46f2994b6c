"""Telemetry that was forged beside an honest journal: what stands against itself is found, and what does not is named.

The telemetry is of a real run on a machine without accelerators; one that tells power and a counter of energy is added.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from aiperf.verify import Finding, verify
from tests.journal.forged import Line

GOLDEN = Path(__file__).parents[1] / "golden"
WATTS = 300.0
Edit = Callable[[list[Line]], list[Line]]
"""Of the lines of the worker that was there longest."""


def found_in(folder: Path, edit: Edit) -> list[Finding]:
    """What verifying finds of the real run with its telemetry so edited."""
    shutil.copy(GOLDEN / "resumed-v5.jsonl", folder / "journal.jsonl")
    shutil.copytree(GOLDEN / "resumed-v5.telemetry", folder / "telemetry")
    file = folder / "telemetry" / "1.jsonl"
    lines = edit(metered([json.loads(line) for line in file.read_text().splitlines()]))
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return [one for one in verify(folder, sample=0).findings if one.check in ("telemetry", "recorders")]


def metered(lines: list[Line]) -> list[Line]:
    """The same, with an accelerator that draws power."""
    session, *looks = lines
    session["devices"].append({"id": "GPU-1", "kind": "accelerator"})
    drawing = {"power_watts": WATTS, "utilisation": 0.9}
    of_it = [
        {"line": "sample", "device": "GPU-1", "at": look["at"], "wall_unix": look["wall_unix"], **drawing}
        | {"energy_joules": 1000.0 + WATTS * look["at"]}
        for look in looks
    ]
    return [session, *(line for pair in zip(looks, of_it, strict=True) for line in pair)]


def accelerator(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line.get("device") == "GPU-1"]


def test_honest_telemetry_is_found_to_be_so(tmp_path: Path) -> None:
    assert found_in(tmp_path, lambda lines: lines) == []


def gap_hidden(lines: list[Line]) -> list[Line]:
    """Forty seconds are taken out, and what follows is moved over them."""
    kept = [line for line in lines if not 80 <= line["at"] < 120]
    return [line | {"at": round(line["at"] - 40.0, 3)} if line["at"] >= 120 else line for line in kept]


def gap_filled(lines: list[Line]) -> list[Line]:
    """Forty seconds are taken out, and looks of another time stand for them, with the journal's time alone set right."""
    there = [line for line in lines if not 80 <= line["at"] < 120]
    other = [line | {"at": round(line["at"] - 40.0, 3)} for line in lines if 120 <= line["at"] < 160]
    return sorted([*there, *other], key=lambda line: line["at"])


def set_back(lines: list[Line]) -> list[Line]:
    """The counter begins anew in the middle, as if a part had not been used."""
    for line in accelerator(lines)[60:]:
        line["energy_joules"] -= 9000.0
    return lines


def earlier(lines: list[Line]) -> list[Line]:
    """The whole of another hour of the same machine, with its wall clock as it was."""
    return [line | {"wall_unix": line["wall_unix"] - 3600.0} for line in lines]


@pytest.mark.parametrize("edit", [gap_hidden, gap_filled, set_back, earlier])
def test_telemetry_that_stands_against_itself_or_the_journal_is_a_contradiction(tmp_path: Path, edit: Edit) -> None:
    found = found_in(tmp_path, edit)

    assert "contradiction" in {one.certainty for one in found if one.check == "recorders"}


def gap_left(lines: list[Line]) -> list[Line]:
    return [line for line in lines if not 80 <= line["at"] < 120]


def power_lowered(lines: list[Line]) -> list[Line]:
    """Its samples, and not its counter."""
    for line in accelerator(lines):
        line["power_watts"] /= 2
    return lines


def counter_lowered(lines: list[Line]) -> list[Line]:
    """Its counter, and not its samples."""
    for line in accelerator(lines):
        line["energy_joules"] /= 2
    return lines


@pytest.mark.parametrize("edit", [gap_left, power_lowered, counter_lowered])
def test_a_gap_and_a_disagreement_are_told_since_honest_sensors_have_them_too(tmp_path: Path, edit: Edit) -> None:
    found = found_in(tmp_path, edit)

    assert {one.certainty for one in found} == {"cannot be determined"}


def both_lowered(lines: list[Line]) -> list[Line]:
    """Samples and counter alike."""
    return counter_lowered(power_lowered(lines))


def test_energy_that_is_lowered_throughout_is_not_found_since_nothing_chains_telemetry(tmp_path: Path) -> None:
    assert found_in(tmp_path, both_lowered) == []


def watched(lines: list[Line], own: float) -> list[Line]:
    """With whose work the host's two processors did: programs worked all the time, this run's so much of it."""
    for line in lines:
        if line.get("device") == "host":
            at = line["at"]
            line["processors"] = {
                "passed": 2 * at,
                "programs": 2 * at,
                "own": 2 * own * at,
                "kernel": 0.0,
                "stolen": 0.0,
            }
    return lines


@pytest.mark.parametrize(("own", "is_found"), [(0.7, False), (1.05, False), (1.5, True)])
def test_a_run_that_had_more_processor_time_than_all_programs_is_a_contradiction(
    tmp_path: Path, own: float, is_found: bool
) -> None:
    found = found_in(tmp_path, lambda lines: watched(lines, own))

    assert bool(found) == is_found
    assert all("by programs" in one.found for one in found)
