"""Workflows, templates and hooks: they parse, and call targets and programs that exist. GitHub itself has not run them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_each_step_of_a_workflow_calls_what_exists(file: Path) -> None:
    workflow = yaml.safe_load(text := file.read_text())
    commands = [shlex.split(step["run"]) for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    targets = {words[1] for words in commands if words[0] == "make"}
    scripts = {words[-1] for words in commands if words[0] != "make"}

    assert text.startswith("# Not run on GitHub")
    assert (targets or file.name == "image.yml") and targets <= set(
        re.findall(r"^([a-z-]+):.*##", MAKEFILE, re.MULTILINE)
    )
    assert all((ROOT / script).is_file() for script in scripts)
    assert all((ROOT / word).exists() for words in commands for word in re.findall(r"tests/\S+", " ".join(words)))
    assert workflow["permissions"] == {"contents": "read"} | ({"packages": "write"} if file.name == "image.yml" else {})


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="actionlint is not in the search path")
def test_actionlint_finds_nothing() -> None:
    found = subprocess.run(["actionlint", *WORKFLOWS], cwd=ROOT, capture_output=True, text=True, check=False)

    assert (found.returncode, found.stdout) == (0, "")


def test_the_image_is_built_from_arguments_that_the_dockerfile_has() -> None:
    job = yaml.safe_load((ROOT / ".github/workflows/image.yml").read_text())["jobs"]["image"]
    declared = re.findall(r"^ARG ([A-Z_]+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    (arguments,) = [step["with"]["build-args"] for step in job["steps"] if "build-args" in step.get("with", {})]

    assert arguments.partition("=")[0] in declared
    assert all((ROOT / "requirements" / f"{device}.txt").is_file() for device in job["strategy"]["matrix"]["device"])


def test_the_workflow_of_submissions_calls_their_check() -> None:
    assert "make submissions" in (ROOT / ".github/workflows/submissions.yml").read_text()
    assert re.search(r"^submissions: .*\n\t.* -m tools.submissions$", MAKEFILE, re.MULTILINE)


RELEASES = {
    "changes": ("0.2.0", "## [0.2.0] - 2026-12-01", "v0.2.0", True, "this checkout has changes"),
    "no heading": ("0.2.0", "## [Unreleased]", "v0.2.0", False, "no heading '## [0.2.0] - YYYY-MM-DD'"),
    "another tag": ("0.2.0", "## [0.2.0] - 2026-12-01", "v0.3.0", False, "v0.2.0, but is 'v0.3.0'"),
}


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_is_refused_with_the_fix(tmp_path: Path, name: str) -> None:
    version, heading, tag, is_changed, expected = RELEASES[name]
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/release.sh", tmp_path / "tools")
    (tmp_path / "pyproject.toml").write_text(f'version = "{version}"\n')
    (tmp_path / "CHANGELOG.md").write_text(f"{heading}\n")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"], ["tag", tag]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path, check=True)
    if is_changed:
        (tmp_path / "more").touch()

    made = subprocess.run(["bash", "tools/release.sh"], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert made.returncode == 1 and expected in made.stderr
    assert not (tmp_path / "dist").exists()


def test_each_supported_python_is_in_the_matrix() -> None:
    matrix = yaml.safe_load((ROOT / ".github/workflows/checks.yml").read_text())["jobs"]["test"]["strategy"]["matrix"]

    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]


def test_hooks_and_templates_name_files_that_exist() -> None:
    hooks = [
        hook
        for repo in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
        for hook in repo["hooks"]
        if repo["repo"] == "local"
    ]
    templates = [path for path in (ROOT / ".github").rglob("*") if path.is_file()]
    texts = [path.read_text().replace("/blob/main/", " ") for path in templates]
    named = {name for text in texts for name in re.findall(r"(?<![\w/-])(?:[a-z]+/)?(?:[A-Z]+|[a-z]+)\.md", text)}
    named.discard("submission.md")  # the address of a template

    assert all(f"$(BIN)/{Path(hook['entry'].split()[0]).name}" in MAKEFILE for hook in hooks)
    assert named and [name for name in named if not (ROOT / name).is_file()] == []
    assert all(yaml.safe_load(path.read_text()) for path in templates if path.suffix == ".yml")
