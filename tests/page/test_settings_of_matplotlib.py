"""Matplotlib's settings of a user change no picture, and a picture that fails costs no result."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import pytest

from aiperf.page import figure
from aiperf.report.write import closing_lines, report_of, write

GOLDEN = Path(__file__).parents[1] / "golden" / "resumed-v5.jsonl"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    folder.mkdir()
    shutil.copy(GOLDEN, folder / "journal.jsonl")
    return folder


def pictures(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "plots").iterdir()}


@pytest.fixture(scope="module")
def usual(run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("usual")
    write(report_of(run), folder)
    return pictures(folder)


@pytest.mark.parametrize("settings", [b"text.usetex: True\nfigure.dpi: 33\nbackend: TkAgg\n", b"\xff\xfe no text"])
def test_settings_of_a_user_change_no_picture(
    settings: bytes, run: Path, usual: dict[str, bytes], tmp_path: Path
) -> None:
    for folder in (tmp_path, tmp_path / "matplotlib"):
        folder.mkdir(exist_ok=True)
        (folder / "matplotlibrc").write_bytes(settings)
    given = {"MPLBACKEND": "nonsense", "XDG_CONFIG_HOME": str(tmp_path), "MATPLOTLIBRC": "/nowhere", "HOME": "/proc"}

    ended = subprocess.run(
        [sys.executable, "-m", "aiperf", "report", str(run), "--out", "report"],
        cwd=tmp_path,
        env=os.environ | given,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert pictures(tmp_path / "report") == usual


def test_settings_of_a_notebook_change_no_picture(run: Path, usual: dict[str, bytes], tmp_path: Path) -> None:
    with mpl.rc_context({"text.usetex": True, "savefig.bbox": "tight", "axes.titlesize": 40}):
        write(report_of(run), tmp_path)

    assert pictures(tmp_path) == usual


def test_a_picture_that_fails_is_reported_beside_the_score(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no font")

    monkeypatch.setattr(figure, "_drawn", fail)

    report = report_of(run)
    paths = write(report, tmp_path)

    lines = closing_lines(report, paths, run)
    assert any("pictures not drawn: " in line and "RuntimeError: no font" in line for line in lines), lines
    assert any(line.startswith("score 47.1 GFLOPS") for line in lines), lines
    assert "Not drawn. RuntimeError: no font" in paths.page.read_text("utf-8")
