"""`python -m aiperf hpl` as a user types it, and real HPL where MPI is installed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aiperf.__main__ import main
from aiperf.scratch import MARK
from aiperf.units import count

EXAMPLE = "examples/hpl/p100.yaml"
MISSING = [name for name in ("mpicc", "mpirun", "hpcc") if shutil.which(name) is None]
needs_mpi = pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (Debian: libopenmpi-dev openmpi-bin hpcc)"
)


def test_predict_lists_grids_and_elasticities(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status = main(
        ["hpl", "predict", EXAMPLE, "--nb", "384", "--vary", "PCIe.bytes_per_second=6e9,12e9", "--out", str(tmp_path)]
    )
    printed = capsys.readouterr().out

    assert status == 0
    assert "3 x 4 column-major" in printed
    assert "the paper's guideline" in printed
    assert "gemm_flops" in printed
    assert "Predicted with other values of PCIe.bytes_per_second" in printed and "1.2e+10" in printed
    assert (tmp_path / "HPL.dat").read_text().count("\n") == 31


def test_predict_draws_the_curve_of_several_orders(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["hpl", "predict", EXAMPLE, "--nb", "384", "--n", "130000,40000,80000", "--out", str(tmp_path)]

    assert main([*words, "--vary", "PCIe.bytes_per_second=12e9"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert main([*words, "--json"]) == 0
    curve = json.loads(capsys.readouterr().out)["curve"]

    assert [each["n"] for each in curve] == [40_000, 80_000, 130_000]
    assert all(
        f"{each['n'] // 1000} 000 2 x 6 row-major {' '.join(count(each['gflops'], 1).split())} " in printed
        for each in curve
    )
    # without effect on the best grid, but not on the best grid after the change
    assert "elasticity on this grid" in printed and "+0.1231" in printed
    page = (tmp_path / "hpl.html").read_text()
    assert page.count("<svg") == 2 and "80 000" in page.replace("\u202f", " ")
    assert "130000" in (tmp_path / "HPL.dat").read_text()
    assert main(["hpl", "predict", EXAMPLE, "--nb", "384", "--n", "130000,500"]) == 2
    assert "N is at least NB (1 + 2P/3) = 896, but found 500" in capsys.readouterr().err


NVIDIA = """HPL-NVIDIA 24.3.0
WC0            44160   384     3     4         6.50       8.833e+03 ( 7.361e+02)
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   0.000320172243 ...... PASSED
End of Tests.
"""


def test_a_vendors_hpl_runs_with_its_arguments(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text(NVIDIA)
    words = ["--system", EXAMPLE, "--launch", "env", "--n", "44160", "--nb", "384", "--grid", "3x4", "--repeat", "2"]
    words += ["--binary", f"cat '{tmp_path}/out.txt'", "--out", str(tmp_path / "hpl")]

    assert main(["hpl", "measure", *words]) == 0
    printed = capsys.readouterr().out
    assert "1 of 2: 3 x 4: N 44160 8833 GFLOPS" in printed and "2 of 2: " in printed
    (case,) = json.loads((tmp_path / "hpl/hpl.json").read_text())["cases"]
    assert case["measured_gflops"] == [8833.0, 8833.0]

    (tmp_path / "out.txt").write_text(NVIDIA.replace("HPL-NVIDIA", "HPL-MxP-NVIDIA"))
    assert main(["hpl", "measure", *words]) == 2
    assert "'" in (refused := " ".join(capsys.readouterr().err.split())) and "results of HPL-MxP" in refused
    assert main(["hpl", "explain", str(tmp_path / "out.txt"), "--system", EXAMPLE]) == 0
    assert "HPL-MxP computes in mixed precision: the rates of SYSTEM.yaml" in " ".join(capsys.readouterr().out.split())


def test_calibrate_checks_its_target_before_it_measures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for target in (tmp_path, tmp_path / "none" / "here.yaml"):
        assert main(["hpl", "calibrate", "--out", str(target), "--launch", "no-such-mpirun"]) == 2
        assert "cannot be written (" in capsys.readouterr().err


def test_predict_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hpl", "predict", EXAMPLE, "--n", "160000", "--nb", "384", "--json"]) == 2
    assert main(["hpl", "predict", EXAMPLE, "--n", "130000", "--nb", "384", "--grid", "2x6", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert {(each["p"], each["q"]) for each in found["predictions"]} == {(2, 6)}
    assert found["n"] == 130_000


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["predict", EXAMPLE, "--grid", "2by2"], "--grid is P x Q, as 2x4, but found '2by2'"),
        (["predict", EXAMPLE, "--vary", "PCIe.bytes=1"], "found 'PCIe.bytes'"),
        (
            ["predict", EXAMPLE, "--vary", "gemm_flops=fast"],
            "--vary is FIGURE=A,B,C with numbers, but found 'gemm_flops=fast'",
        ),
        (["measure", "--n", "0"], "--n is one or several orders, as 4000,8000, but found '0'"),
        (["measure", "--binary", "no-such-hpl"], "'no-such-hpl' is not installed"),
        (
            ["calibrate", "--out", "x.yaml", "--launch", "no-such-mpirun -np {ranks}"],
            "'no-such-mpirun' is not installed",
        ),
        (["predikt"], "invalid choice"),
    ],
)
def test_wrong_word_is_answered(words: list[str], answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    if MISSING and words[0] in ("measure", "calibrate"):
        pytest.skip(f"not installed: {', '.join(MISSING)}")

    assert main(["hpl", *words]) == 2
    assert answer in capsys.readouterr().err


def test_prediction_loads_neither_torch_nor_ray() -> None:
    code = (
        "import sys; from aiperf.__main__ import main; "
        f"main(['hpl', 'predict', {EXAMPLE!r}]); print(sorted({{'torch', 'ray', 'hydra'}} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout.splitlines()[-1] == "[]"


@pytest.fixture
def as_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give OpenMPI the consent that it needs from root, as in a container."""
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        monkeypatch.setenv(name, "1")


SYSTEM = """name: guessed
ranks: 2
gemm_flops: 5e10
layers:
  - {name: memory, ranks: 1, latency_seconds: 1e-7, bytes_per_second: 1e10}
  - {name: node, ranks: 2, latency_seconds: 1e-6, bytes_per_second: 4e9}
"""


@needs_mpi
@pytest.mark.usefixtures("as_user")
def test_real_hpl_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "guess.yaml").write_text(SYSTEM)
    words = [
        "--system",
        str(tmp_path / "guess.yaml"),
        "--binary",
        "hpcc",
        "--n",
        "1000",
        "--grid",
        "1x1",
        "--repeat",
        "1",
    ]

    assert main(["hpl", "measure", *words, "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    found = json.loads((tmp_path / "out/hpl.json").read_text())

    assert "N 1000, 1 x 1: predicted" in printed
    assert len(found["cases"]) == 1
    assert found["cases"][0]["measured_gflops"][0] > 0
    assert (tmp_path / "out/hpl.html").read_text().count("<svg") == 3
    assert {path.suffix for path in (tmp_path / "out/plots").iterdir()} == {".svg", ".png", ".pdf"}
    outputs = [str(path) for path in (tmp_path / "out").glob("*.out")]
    assert main(["hpl", "explain", *outputs, "--system", str(tmp_path / "guess.yaml")]) == 0


@needs_mpi
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whom OpenMPI refuses")
def test_root_without_consent_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OMPI_ALLOW_RUN_AS_ROOT", raising=False)
    (tmp_path / "guess.yaml").write_text(SYSTEM)

    assert (
        main(["hpl", "measure", "--system", str(tmp_path / "guess.yaml"), "--binary", "hpcc", "--out", str(tmp_path)])
        == 2
    )
    assert "set OMPI_ALLOW_RUN_AS_ROOT=1" in " ".join(capsys.readouterr().err.split())


@needs_mpi
@pytest.mark.usefixtures("as_user")
def test_interrupt_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "guess.yaml").write_text(SYSTEM)
    words = ["--system", "guess.yaml", "--binary", "hpcc", "--n", "8000", "--grid", "1x2", "--out", "out"]
    verb = subprocess.Popen(
        [sys.executable, "-m", "aiperf", "hpl", "measure", *words],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(Path.cwd())},
        stderr=subprocess.DEVNULL,
    )
    assert waited(lambda: running(tmp_path, b"hpcc"))
    verb.send_signal(signal.SIGINT)

    assert verb.wait(30) == 130
    assert waited(lambda: not running(tmp_path, b""))
    assert not list((tmp_path / "out").glob("*.out"))


def waited(is_true: object, seconds: float = 30) -> bool:
    assert callable(is_true)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if is_true():
            return True
        time.sleep(0.05)
    return False


def running(folder: Path, name: bytes) -> list[str]:
    """Return the processes with a scratch folder below this folder and this name in their command."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            environment, command = (path / "environ").read_bytes(), (path / "cmdline").read_bytes()
        except OSError:
            continue
        if f"{MARK}={folder}/".encode() in environment and name in command:
            found.append(path.name)
    return found
