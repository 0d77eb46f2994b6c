"""The import contracts of pyproject.toml reject forbidden imports, which are added to a copy of the sources."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PACKAGES = ("aiperf", "morphism", "searchers", "cluster")
PLANTED = {
    "aiperf/rules/decide.py": "import torch",
    "aiperf/accounting/score.py": "import ray",
    "aiperf/journal/events.py": "import rich",
    "aiperf/system/host.py": "from aiperf.report import facts",
    "aiperf/train/loop.py": "from aiperf.train.ranks import group",
    "aiperf/report/facts.py": "import torch",
    "aiperf/planning/plan.py": "from aiperf.system.describe import describe",
    "morphism/ops.py": "import numpy",
}
"""Files, each with an import that is forbidden there."""


def test_forbidden_imports_are_reported_with_both_modules(tmp_path: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(PROJECT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT / "pyproject.toml", tmp_path)
    for file, imported in PLANTED.items():
        source = tmp_path / file
        source.write_text(source.read_text() + f"\n{imported}\n")

    ended = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "COLUMNS": "400"},
        capture_output=True,
        text=True,
    )

    assert ended.returncode == 1
    output = " ".join(ended.stdout.split())
    assert "aiperf.rules is not allowed to import torch: - aiperf.rules.decide -> torch" in output
    assert "aiperf.accounting is not allowed to import ray: - aiperf.accounting.score -> ray" in output
    assert "aiperf.journal is not allowed to import rich: - aiperf.journal.events -> rich" in output
    assert "aiperf.system is not allowed to import aiperf.report: - aiperf.system.host -> aiperf.report.facts" in output
    assert (
        "aiperf.train.loop is not allowed to import aiperf.train.ranks: - aiperf.train.loop -> aiperf.train.ranks"
        in output
    )
    assert (
        "aiperf.planning.plan is not allowed to import aiperf.system: - aiperf.planning.plan -> aiperf.system" in output
    )
    assert "aiperf.report is not allowed to import torch: - aiperf.report.facts -> torch" in output
    assert "morphism is not allowed to import numpy: - morphism.ops -> numpy" in output
    assert "No cycles are allowed in aiperf.train." in output
