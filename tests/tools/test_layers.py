"""The import contracts of pyproject.toml refuse what they are there for: such imports are planted in a copy of the sources."""

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
"""A file, and what it must not import."""


def test_what_a_room_must_not_import_is_refused_by_name(tmp_path: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(PROJECT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT / "pyproject.toml", tmp_path)
    for file, words in PLANTED.items():
        source = tmp_path / file
        source.write_text(source.read_text() + f"\n{words}\n")

    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "COLUMNS": "400"},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 1
    answer = " ".join(done.stdout.split())
    assert "aiperf.rules is not allowed to import torch: - aiperf.rules.decide -> torch" in answer
    assert "aiperf.accounting is not allowed to import ray: - aiperf.accounting.score -> ray" in answer
    assert "aiperf.journal is not allowed to import rich: - aiperf.journal.events -> rich" in answer
    assert "aiperf.system is not allowed to import aiperf.report: - aiperf.system.host -> aiperf.report.facts" in answer
    assert (
        "aiperf.train.loop is not allowed to import aiperf.train.ranks: - aiperf.train.loop -> aiperf.train.ranks"
        in answer
    )
    assert (
        "aiperf.planning.plan is not allowed to import aiperf.system: - aiperf.planning.plan -> aiperf.system" in answer
    )
    assert "aiperf.report is not allowed to import torch: - aiperf.report.facts -> torch" in answer
    assert "morphism is not allowed to import numpy: - morphism.ops -> numpy" in answer
    assert "No cycles are allowed in aiperf.train." in answer
