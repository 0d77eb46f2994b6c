"""Reports about measured machines: caches that the kernel describes in part, kinds of cores, and other locales."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiperf.bops import instructions, peak
from aiperf.bops.instructions import NotMeasured, cache_options
from aiperf.bops.instructions import _perf as perf  # the whole measurement needs counters

CACHES = {
    "index0": {"level": "1", "type": "Data", "size": "32K", "ways_of_associativity": "8", "coherency_line_size": "64"},
    "index1": {
        "level": "2",
        "type": "Unified",
        "size": "1024K",
        "ways_of_associativity": "8",
        "coherency_line_size": "64",
    },
    "index2": {
        "level": "3",
        "type": "Unified",
        "size": "8M",
        "ways_of_associativity": "16",
        "coherency_line_size": "64",
    },
}


def described(root: Path, monkeypatch: pytest.MonkeyPatch, **changes: str | None) -> tuple[list[str], list[str]]:
    """Return the options and notes on a machine whose last cache is described with these changes. None: no such file."""
    for index, values in CACHES.items():
        (root / index).mkdir()
        for name, value in (values | (changes if index == "index2" else {})).items():
            if value is not None:
                (root / index / name).write_text(value + "\n")
    for module in (instructions, peak):
        monkeypatch.setattr(module, "cache_folders", lambda: sorted(root.glob("index*")))
    return cache_options()


def test_a_described_cache_is_simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options, notes = described(tmp_path, monkeypatch)

    assert options == ["--D1=32768,8,64", "--LL=8388608,16,64"] and not notes
    assert peak.last_cache_bytes() == 8 << 20


@pytest.mark.parametrize("name", ["size", "ways_of_associativity", "coherency_line_size", "level"])
@pytest.mark.parametrize("value", [None, "0", "-1", "", "many", "4294967295T"])
def test_a_cache_described_in_part_has_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str | None
) -> None:
    options, notes = described(tmp_path, monkeypatch, **{name: value})

    assert options == ["--D1=32768,8,64"]
    assert len(notes) == 1 and name in notes[0] and notes[0].startswith("LL has callgrind's default size")


def test_a_machine_without_described_caches_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (instructions, peak):
        monkeypatch.setattr(module, "cache_folders", list)

    assert cache_options() == ([], [])
    assert peak.last_cache_bytes() == 32 << 20


ROWS = {
    "one kind": ["100;;a:u;9;100.00", "7;;b:u;9;100.00"],
    "other order": ["7;;b:u;9;100.00", "100;;a:u;9;100.00"],
    "decimal commas": ["100;;a:u;9;100,00", "7;;b:u;9;100,00"],
    "hybrid": ["100;;cpu_core/a/u;9;99.9", "<not counted>;;cpu_atom/a/u;0;0.0", "7;;cpu_core/b/u;9;99.9"],
    "hybrid, small cores first": ["900;;cpu_atom/a/u;1;0.2", "100;;cpu_core/a/u;9;99.8", "7;;cpu_core/b/u;9;99.9"],
    "hybrid, moved": ["160;;cpu_atom/a/u;1;25.0", "80;;cpu_core/a/u;9;75.0", "7;;cpu_core/b/u;9;99.9"],
}


def fake(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (folder / "perf").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "perf").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_counts_belong_to_events_not_to_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[str]) -> None:
    fake(tmp_path, monkeypatch, "\n".join(f'echo "{row}" >> "$7"' for row in rows))

    assert perf(["true"], {"first": "a:u", "second": "b:u"}, None)[0] == {"first": 100, "second": 7}


def test_an_event_that_no_core_counts_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, 'echo "<not counted>;;cpu_atom/a/u;0;0.0" >> "$7"')

    with pytest.raises(NotMeasured, match="a:u: not counted"):
        perf(["true"], {"first": "a:u"}, None)


@pytest.mark.parametrize("own", [{"LC_ALL": "de_DE.UTF-8"}, {"LANG": "de_DE.UTF-8"}, {}])
def test_only_the_program_keeps_the_users_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: dict[str, str]
) -> None:
    for name in ("LC_ALL", "LC_NUMERIC", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    fake(tmp_path, monkeypatch, f'echo "1;;a;9;100.00" > "$7"; echo "$LC_ALL" > {tmp_path}/perfs; shift 8; exec "$@"')

    perf(["sh", "-c", f'echo "$LC_ALL/$LANG" > {tmp_path}/programs'], {"first": "a"}, None)

    assert (tmp_path / "perfs").read_text() == ("C\n" if own else "\n")
    assert (tmp_path / "programs").read_text() == f"{own.get('LC_ALL', '')}/{own.get('LANG', '')}\n"


COMMANDS = """
import sys
from pathlib import Path
from aiperf.bops.count import _output as of_clang
from aiperf.bops.run import _mpi_flags
from aiperf.drive.ray.cluster.invited_hosts import _look
from aiperf.hpl.mpi import launch
from aiperf.native import _output as of_compilers
from aiperf.submission.signatures import _ssh_keygen
from aiperf.system.source import _git
of_clang(["clang"]), _mpi_flags(), _look(["ssh"]), of_compilers(["cc"]), _ssh_keygen("sign"), _git(Path("/"), "status")
launch("mpirun -np {ranks}", 1, 1, ["xhpl"], 60.0, {})
"""


def test_programs_whose_output_is_read_speak_one_language(tmp_path: Path) -> None:
    names = ("clang", "mpicxx", "ssh", "cc", "ssh-keygen", "git", "mpirun")
    for name in names:
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\necho "{name} $LC_ALL" >> {tmp_path}/asked\n')
        path.chmod(0o755)

    subprocess.run(
        [sys.executable, "-c", COMMANDS],
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LC_ALL": "de_DE.UTF-8"},
        check=True,
    )

    assert sorted((tmp_path / "asked").read_text().split("\n")[:-1]) == sorted(f"{name} C" for name in names)
