"""Contents of an installed wheel: all packages and files of a run, and light imports."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from importlib.metadata import distributions
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from aiperf.page.html import DOCS, REPOSITORY
from aiperf.system.source import digest

PROJECT = Path(__file__).parent.parent
PACKAGES = ("aiperf", "morphism", "searchers", "cluster")

SIMULATED = (
    *("+cluster=simulated", "cluster.workers=4", "cluster.accelerators=1", "cluster.flops=2e9", "dataset=synthetic"),
    *("dataset.image=8", "dataset.channels=1", "dataset.training_images=400", "dataset.validation_images=100"),
    *("start=digits_small", "budget.batch=8", "searcher=random", "hpo=off", "schedule.duration_seconds=600"),
    *("schedule.warmup_seconds=100", "schedule.epochs=[2]"),
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources and unpacked."""
    work = tmp_path_factory.mktemp("wheel")
    sources = work / "sources"
    sources.mkdir()
    for name in (
        "pyproject.toml",
        "setup.py",
        "MANIFEST.in",
        "CHANGELOG.md",
        "README.md",
        "LICENSE",
    ):
        shutil.copy(PROJECT / name, sources)
    for package in (*PACKAGES, "conf"):
        shutil.copytree(PROJECT / package, sources / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(PROJECT / "requirements", sources / "requirements")
    (sources / "tools").mkdir()
    shutil.copy(PROJECT / "tools" / "verify_standalone.py", sources / "tools")
    (sources / "tests").mkdir()
    shutil.copy(PROJECT / "tests" / "test_packaging.py", sources / "tests")
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


@pytest.fixture(scope="module")
def bare(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Virtual environment in which pip installed only the wheel. Its dependencies are those of this environment."""
    environment = tmp_path_factory.mktemp("bare") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (wheel,) = installed.parent.glob("aiperf_cluster-*.whl")
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-index")
    python = str(environment / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", *options, str(wheel)]
    subprocess.run(pip, check=True, capture_output=True, env=_without_path())
    (site,) = environment.glob("lib/python*/site-packages")
    # Python reads no .pth files in a folder from a .pth file, so that this checkout's editable install has no effect
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return environment


def _without_path() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.fixture
def a_users_folder(tmp_path: Path) -> Path:
    """That of a Sphinx project with folders and modules called as ours are, none of which may be imported."""
    folder = tmp_path / "project"
    for package in ("conf", "searchers", "tests", "planning"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").write_text("raise RuntimeError('not ours')")
    (folder / "morphism").mkdir()
    (folder / "conf" / "config.yaml").write_text("defaults: [nothing]")
    for module in ("conf.py", "cluster.py", "yaml.py", "msgspec.py"):
        (folder / module).write_text("raise RuntimeError('not ours')")
    return folder


def _typed(folder: Path, *words: str | Path) -> str:
    answer = subprocess.run(words, cwd=folder, env=_without_path(), capture_output=True, text=True, check=False)
    assert answer.returncode in (0, 1) and "Traceback" not in answer.stderr, answer.stderr
    return answer.stdout


@pytest.mark.slow
def test_an_installation_plans_runs_and_reports_in_any_folder(bare: Path, a_users_folder: Path) -> None:
    python, script = bare / "bin" / "python", bare / "bin" / "aiperf-cluster"

    planned = _typed(a_users_folder, script, "dry_run=true")
    _typed(a_users_folder, python, "-m", "aiperf", *SIMULATED)
    (run,) = (a_users_folder / "runs").iterdir()
    reported = _typed(a_users_folder, python, "-m", "aiperf", "report", run)
    where = _typed(a_users_folder, script, "--version"), _typed(a_users_folder, python, "-m", "aiperf", "--version")

    assert planned.startswith("data set     digits")
    assert "simulated score" in reported and (run / "report.html").is_file()
    assert where[0] == where[1] and f"SHA-256 {digest(PROJECT)}" in where[0]


def test_packages_of_the_working_folder_are_not_imported(bare: Path, a_users_folder: Path) -> None:
    """As Ray starts its workers, and as ranks are started."""
    for module in ("yaml.py", "msgspec.py"):  # a library of that name is out of our hands there
        (a_users_folder / module).unlink()
    asked = "import aiperf, cluster.place, searchers, morphism; print(cluster.__file__, searchers.__file__, morphism.__file__)"

    said = _typed(a_users_folder, bare / "bin" / "python", "-c", asked)

    assert [Path(file).is_relative_to(bare) for file in said.split()] == [True, True, True]


def test_help_names_the_program_as_it_was_called(bare: Path, tmp_path: Path) -> None:
    for words in (("--help",), ("score", "--help")):
        said = _typed(tmp_path, bare / "bin" / "aiperf-cluster", *words)

        assert "aiperf-cluster" in said and "python -m aiperf" not in said


def test_texts_name_an_address_of_the_documentation(bare: Path, tmp_path: Path) -> None:
    said = _typed(tmp_path, bare / "bin" / "aiperf-cluster", "export", "--help")

    assert f"({DOCS}/using.md)" in " ".join(said.split())


def test_the_metadata_have_links_that_work_elsewhere(installed: Path) -> None:
    (metadata,) = installed.glob("*.dist-info/METADATA")
    read = email.message_from_string(metadata.read_text("utf-8"))
    links = re.findall(r"\]\(([^)#][^)]*)\)", str(read.get_payload()))
    addresses = dict(each.split(", ") for each in read.get_all("Project-URL", []))

    assert len(links) > 20 and all(link.startswith("https://") for link in links)
    assert (
        f"![First page of a report: score, rules, warnings, score over time]({addresses['Homepage']}/raw/main/docs/"
        in str(read.get_payload())
    )
    assert [link for link in links if REPOSITORY in link and not _in_the_repository(link)] == []
    assert read["Author"] and len(read.get_all("Classifier", [])) > 5
    assert {"Homepage", "Documentation", "Changelog", "Issues"} <= set(addresses)


def _in_the_repository(link: str) -> bool:
    return (PROJECT / re.sub(r".*?/(blob|raw)/main/|#.*", "", link)).exists()


@pytest.mark.slow
def test_the_sources_build_the_same_wheel_with_the_verifier(installed: Path, tmp_path: Path) -> None:
    built = "from setuptools import build_meta; import sys; print(build_meta.build_sdist(sys.argv[1]))"
    subprocess.run(
        [sys.executable, "-c", built, tmp_path], cwd=installed.parent / "sources", check=True, capture_output=True
    )
    (packed,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    (sources,) = (path for path in tmp_path.iterdir() if path.is_dir())
    built = built.replace("build_sdist", "build_wheel")
    subprocess.run([sys.executable, "-c", built, tmp_path], cwd=sources, check=True, capture_output=True)

    (wheel,) = tmp_path.glob("*.whl")
    (first,) = installed.parent.glob("*.whl")
    assert _held(wheel) == _held(first)
    assert (sources / "tools" / "verify_standalone.py").is_file() and (sources / "requirements" / "run.txt").is_file()


def _held(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as archive:
        return {each.filename: each.CRC for each in archive.infolist() if not each.filename.endswith("RECORD")}


def test_pinned_versions_satisfy_the_lower_bounds() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    locked = _locked("run") | _locked("cpu")

    for each in map(Requirement, project["dependencies"]):
        assert [bound.operator for bound in each.specifier] == [">="], each
        assert each.specifier.contains(locked[canonicalize_name(each.name)].version), each


class Locked(NamedTuple):
    version: str
    marker: Marker | None
    hashes: frozenset[str]


def _locked(name: str) -> dict[str, Locked]:
    """The packages of a file of the lock."""
    text = (PROJECT / "requirements" / f"{name}.txt").read_text()
    entries = re.sub(r"^#.*\n| \\\n +", "", text, flags=re.M).splitlines()
    found: dict[str, Locked] = {}
    for entry in entries:
        requirement = Requirement(entry.partition("--hash")[0])
        hashes = frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry))
        (pin,) = requirement.specifier
        assert pin.operator in ("==", "===") and hashes, entry
        found[canonicalize_name(requirement.name)] = Locked(pin.version, requirement.marker, hashes)
    return found


FILES_OF_THE_LOCK = ("run", "cpu", "cuda", "dev", "image", "read", "horovod")


def test_each_package_of_the_lock_has_one_version() -> None:
    assert {path.stem for path in (PROJECT / "requirements").iterdir()} == set(FILES_OF_THE_LOCK)
    versions: dict[str, set[str]] = {}
    for file in FILES_OF_THE_LOCK:
        for name, each in _locked(file).items():
            versions.setdefault(name, set()).add(each.version.removesuffix("+cpu"))

    assert {name: found for name, found in versions.items() if len(found) > 1} == {}
    for more in ("dev", "image", "cpu", "cuda"):
        assert not _locked(more).keys() & _locked("run").keys(), more
    assert _locked("read").keys() <= _locked("run").keys()
    # builds of torch for x86-64 and ARM with Python 3.11 to 3.14
    assert (
        len(_locked("cpu")["torch"].hashes) >= 8
        and not _locked("cpu")["torch"].hashes & _locked("cuda")["torch"].hashes
    )


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_the_lock_has_what_its_packages_need(python: str) -> None:
    """Set-up installs without their dependencies, so a package that the lock lacks would be missing."""
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    locked = _locked("run") | _locked("cpu") | _locked("dev")
    locked = {name: each for name, each in locked.items() if each.marker is None or each.marker.evaluate(environment)}
    own = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    installed = {str(canonicalize_name(each.name)): list(each.requires or []) for each in distributions()}
    needs = [("pyproject.toml", each) for each in (*own["dependencies"], *own["optional-dependencies"]["dev"][1:])]
    needs += [(name, each) for name in locked for each in installed.get(name, [])]
    lacking = []
    for name, text in needs:
        need = Requirement(text)
        extras = [{**environment, "extra": extra} for extra in ("", "tune")]
        found = locked.get(canonicalize_name(need.name))
        if need.marker and not any(need.marker.evaluate(each) for each in extras):
            continue
        if found is None or not need.specifier.contains(found.version, prereleases=True):
            lacking.append(f"{name} needs {text}")

    assert len(needs) > 200 and lacking == []


def test_packages_for_reading_are_a_part_of_all() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    reading = set(tomllib.loads((PROJECT / "pyproject.toml").read_text())["dependency-groups"]["read"])

    assert reading < {Requirement(each).name for each in project["dependencies"]} - {"torch", "torchvision", "ray"}
    assert reading < _locked("read").keys() and not {"torch", "ray"} & _locked("read").keys()


HEAVY = {
    *("torch", "torchvision", "ray", "horovod", "optuna", "hydra", "omegaconf", "antlr4", "numpy", "scipy", "sklearn"),
    *("matplotlib", "PIL", "rich", "pynvml", "kubernetes", "pandas"),
}
"""Libraries that help, versions and error messages do not need."""


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["--help"], HEAVY),
        (["score", "--help"], HEAVY),
        (["rehearse", "--help"], HEAVY),
        (["--version"], HEAVY),
        (["duration=5"], HEAVY),
        (["--dry-run"], HEAVY),
        (["reprot"], HEAVY),
        (
            ["flops", "resnet50_v1", "--json"],
            {"torch", "ray", "optuna", "hydra", "numpy", "scipy", "sklearn", "matplotlib"},
        ),
        (["morph", "resnet20", "--steps", "1"], {"torch", "ray", "optuna", "hydra", "numpy", "scipy", "matplotlib"}),
        (["score", "nowhere"], {"torch", "ray", "optuna", "scipy", "sklearn", "matplotlib"}),
        (["topology", "torus:32x32"], {"torch", "ray", "optuna", "hydra", "numpy", "scipy", "matplotlib"}),
        (["dry_run=true"], {"torch", "ray", "optuna", "scipy", "matplotlib"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_query_commands_load_no_heavy_library(words: list[str], heavy: set[str], tmp_path: Path) -> None:
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
