"""tools/verify_standalone.py in a bare interpreter: one file, no packages.

tests/accounting/test_reference_score.py checks that its figures equal AIPerf's to the last digit.
"""

from __future__ import annotations

import ast
import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.accounting.score import score
from aiperf.accounting.work_log import work_log
from aiperf.journal.events import SCHEMA
from aiperf.journal.journal import NAME, read
from tests.builders.forged_journal import Line, body, hash_chained, lines_of, write
from tools.verify_standalone import SCHEMA as KNOWN
from tools.verify_standalone import Untrue, canonical, verified

TOOL = Path(__file__).parents[2] / "tools" / "verify_standalone.py"
GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*.jsonl"))
REAL = GOLDEN[-1]


def run_copy(tmp_path: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a copy of the file with an interpreter that has no packages and no environment."""
    alone = shutil.copy(TOOL, tmp_path / "copied.py")
    return subprocess.run(
        [sys.executable, "-S", "-I", "-W", "error", alone, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )


@pytest.mark.parametrize("journal", GOLDEN, ids=lambda path: path.stem)
def test_a_bare_interpreter_gives_the_same_score(tmp_path: Path, journal: Path) -> None:
    ran = run_copy(tmp_path, journal.resolve(), "--json")

    assert ran.returncode == 0, ran.stderr
    found, expected = json.loads(ran.stdout), score(work_log(read(journal)))
    assert found["flops_per_second"] == expected.flops_per_second
    assert found["regulated_flops_per_second"] == expected.regulated_flops_per_second
    assert found["lines"] == len(journal.read_bytes().splitlines())
    assert found["not_checked"]


def test_the_output_has_figures_and_unchecked_properties(tmp_path: Path) -> None:
    ran = run_copy(tmp_path, REAL.resolve())

    assert ran.returncode == 0, ran.stderr
    assert repr(verified(REAL)["flops_per_second"]) in ran.stdout
    assert "not checked" in ran.stdout


def test_it_needs_python_3_9_and_the_standard_library_only() -> None:
    tree = ast.parse(TOOL.read_text(), feature_version=(3, 9))

    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
    }
    assert imported <= sys.stdlib_module_names


def test_it_reads_the_schema_of_this_release() -> None:
    assert KNOWN == SCHEMA


def test_a_torn_last_line_is_dropped_and_reported(tmp_path: Path) -> None:
    whole = REAL.read_bytes().splitlines(keepends=True)
    (tmp_path / NAME).write_bytes(b"".join(whole[:-1]) + whole[-1][:-40])

    ran = run_copy(tmp_path, tmp_path / NAME)

    assert ran.returncode == 0
    assert (
        f"{len(whole) - 1} lines, all valid; an incomplete last line of {len(whole[-1]) - 40} bytes was dropped"
        in ran.stdout
    )
    assert verified(tmp_path)["flops_per_second"] == score(work_log(read(tmp_path))).flops_per_second


def refusal(tmp_path: Path, written: bytes) -> tuple[int, str]:
    """Return the exit status and the line with the reason."""
    (tmp_path / "given").write_bytes(written)
    ran = run_copy(tmp_path, tmp_path / "given")
    assert ran.stdout == ""
    assert ran.stderr.count("\n") == 1, ran.stderr
    return ran.returncode, ran.stderr


def test_a_broken_chain_is_reported_with_its_line(tmp_path: Path) -> None:
    written = REAL.read_bytes()
    at = written.index(b'"accuracy":0.') + len(b'"accuracy":0.')
    changed = written[:at] + b"9" + written[at + 1 :]
    line = written[:at].count(b"\n") + 1

    status, message = refusal(tmp_path, changed)

    assert status == 1
    assert f"line {line}: it does not follow from the line before it" in message


@pytest.mark.parametrize(
    ("written", "status", "why"),
    [
        (b"", 2, "has no complete line"),
        (b'{"event":"RunStarted"', 2, "has no complete line"),
        (gzip.compress(REAL.read_bytes()), 2, "lines of JSON objects, but"),
        (b"\x7fELF\x02\x01\x01", 2, "a journal is lines of JSON objects"),
        (b"\xef\xbb\xbf" + REAL.read_bytes(), 2, "begins with"),
        (b'{"a": 1}\n', 2, "a journal's lines end with their chain"),
        (hash_chained([b'{"event":"Progress"}']), 2, "a journal begins with RunStarted"),
        (hash_chained([b'{"event":"RunStarted","schema":99}']), 2, "reads journals of schema 1, but this one has 99"),
        (REAL.read_bytes().replace(b"\n", b"\r\n"), 1, "copied as text"),
        (REAL.read_bytes() + b'{"a":1}\n', 1, "it has no chain at its end"),
        (REAL.read_bytes() + b"\n", 1, "it has no chain at its end"),
    ],
    ids=["empty", "torn first line", "gzip", "a program", "bom", "other JSON", "no beginning", "schema", "crlf",
        "unsealed", "blank"],
)  # fmt: skip
def test_other_files_are_refused_with_the_reason(tmp_path: Path, written: bytes, status: int, why: str) -> None:
    code, message = refusal(tmp_path, written)

    assert (code, why in message) == (status, True), message


def test_no_file_and_a_folder_without_one_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path):
        ran = run_copy(tmp_path, path)
        assert ran.returncode == 2
        assert "No such file" in ran.stderr
    assert run_copy(tmp_path).returncode == 2
    assert run_copy(tmp_path, REAL.resolve(), "--fast").returncode == 2


def edited(**fields: object) -> list[bytes]:
    """Return the bodies of the real journal, with other values in its last EpochFinished."""
    lines = lines_of(REAL)
    last = next(line for line in reversed(lines) if line["event"] == "EpochFinished")
    last.update(fields)
    return [body(line) for line in lines]


@pytest.mark.parametrize(
    "bodies",
    [
        edited(at=1.0),
        edited(accuracy=1.5),
        edited(accuracy=None),
        edited(accuracy=True),
        edited(trial=999),
        edited(interval={}),
        edited(epoch="one"),
        [*map(body, lines_of(REAL)), b'{"event":"RunEnded","at":1e999,"reason":""}'],
        [*map(body, lines_of(REAL)), b'{"event":"RunEnded","at":999.0,"reason":""}'],
        [*map(body, lines_of(REAL)[:-1]), b'{"event":"RunEnded","at":NaN,"reason":""}'],
        [*map(body, lines_of(REAL)[:-1]), b'{"event":"RunEnded","at":149.0,"at":150.0,"reason":""}'],
        [*map(body, lines_of(REAL)[:-1]), b'{"event":"RunEnded","at":150.0,"reason":"\xff"}'],
        [*map(body, lines_of(REAL)[:-1]), b"[]"],
        [*map(body, lines_of(REAL)[:-1]), b"{" * 100_000 + b"}"],
    ],
    ids=[
        "time runs back", "accuracy above 1", "no accuracy", "true", "no such trial", "no interval", "an epoch in words",
        "infinite", "after the end", "not a number", "a name twice", "no text", "a list", "too deep",
    ],
)  # fmt: skip
def test_an_invalid_sealed_line_is_named_by_its_number(tmp_path: Path, bodies: list[bytes]) -> None:
    (tmp_path / NAME).write_bytes(hash_chained(bodies))

    with pytest.raises(Untrue, match=r"^line \d+: ") as refused:
        verified(tmp_path)

    assert refused.value.line > 1


def configured(change: str, value: object) -> list[Line]:
    """Return the real journal with another first line."""
    lines = lines_of(REAL)
    lines[0][change] = value
    return lines


@pytest.mark.parametrize(
    ("name", "value"),
    [("seed", 5), ("duration_seconds", 100.0), ("warmup_seconds", 1.0), ("config_hash", "0" * 64), ("config", {})],
)
def test_a_first_line_against_its_configuration_is_refused(tmp_path: Path, name: str, value: object) -> None:
    with pytest.raises(Untrue, match=r"^line 1: "):
        verified(write(tmp_path, configured(name, value)))


@given(st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([5e-5, -1.5e-5, 1e-6, 1e16, 1e15, 0.0, -0.0]))
def test_the_configurations_hash_is_independent_of_the_writer(number: float) -> None:
    assert canonical({"b": [number, None], "a": "é\n\x7f"}).encode() == msgspec.json.encode(
        {"b": [number, None], "a": "é\n\x7f"}, order="deterministic"
    )
