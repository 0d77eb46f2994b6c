"""What someone gets who installs the wheel: every package and file that a run needs, and light imports."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
PACKAGES = ("aiperf", "morphism", "searchers", "cluster")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources and unpacked."""
    work = tmp_path_factory.mktemp("wheel")
    sources = work / "sources"
    sources.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, sources)
    for package in (*PACKAGES, "conf"):
        shutil.copytree(PROJECT / package, sources / package, ignore=shutil.ignore_patterns("__pycache__"))
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", work, sources], check=True, capture_output=True
    )
    (wheel,) = work.glob("aiperf_cluster-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(work / "site")
    return work / "site"


def test_the_wheel_holds_every_file_of_the_packages(installed: Path) -> None:
    for package in PACKAGES:
        kept = {path.relative_to(PROJECT) for path in (PROJECT / package).rglob("*") if path.is_file()}
        wanted = {path for path in kept if "__pycache__" not in path.parts}
        assert sorted(path.as_posix() for path in wanted if not (installed / path).is_file()) == []


def test_the_wheel_holds_configuration_peaks_and_types(installed: Path) -> None:
    assert (installed / "aiperf" / "conf" / "config.yaml").is_file()
    assert len(list((installed / "aiperf" / "conf").glob("*/*.yaml"))) == len(list((PROJECT / "conf").glob("*/*.yaml")))
    assert (installed / "aiperf" / "system" / "peaks.json").is_file()
    for package in ("aiperf", "morphism", "searchers", "cluster"):
        assert (installed / package / "py.typed").is_file()


def test_the_wheel_brings_nothing_else(installed: Path) -> None:
    top = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}

    assert top == set(PACKAGES)


def test_the_wheel_plans_a_run_from_any_folder(installed: Path, tmp_path: Path) -> None:
    planned = subprocess.run(
        [sys.executable, "-m", "aiperf", "dry_run=true"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert planned.returncode == 0, planned.stderr
    assert planned.stdout.startswith("data set     digits")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["--help"], {"torch", "ray", "optuna", "scipy", "sklearn", "matplotlib"}),
        (
            ["flops", "resnet50_v1", "--json"],
            {"torch", "ray", "optuna", "hydra", "numpy", "scipy", "sklearn", "matplotlib"},
        ),
        (["morph", "resnet20", "--steps", "1"], {"torch", "ray", "optuna", "hydra", "numpy", "scipy", "matplotlib"}),
        (["score", "nowhere"], {"torch", "ray", "optuna", "scipy", "sklearn", "matplotlib"}),
        (["dry_run=true"], {"torch", "ray", "optuna", "scipy", "matplotlib"}),
    ],
    ids=["help", "flops", "morph", "score", "plan"],
)
def test_what_only_answers_loads_no_heavy_library(words: list[str], heavy: set[str], tmp_path: Path) -> None:
    asked = (
        "import sys\n"
        "from aiperf.__main__ import main\n"
        "main(sys.argv[1:])\n"
        "print('loaded:', *sorted({name.split('.')[0] for name in sys.modules}))\n"
    )

    answer = subprocess.run(
        [sys.executable, "-c", asked, *words], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    loaded = set(answer.stdout.splitlines()[-1].split()[1:])
    assert "aiperf" in loaded
    assert sorted(loaded & heavy) == []
