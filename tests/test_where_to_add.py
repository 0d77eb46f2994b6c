"""Additions that docs/architecture.md describes under "Where to add", made in a copy of the sources.

A data set, a searcher, a collective and a section of the report take at most three places each, all named on that page.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
GOLDEN = PROJECT / "tests" / "golden" / "resumed-v5.jsonl"
PACKAGES = ("aiperf", "morphism", "searchers", "cluster", "conf")

DATA_SET = {
    "aiperf/data/dataset_config.py": '''

@dataclass
class FlagsConf(DataSetConf):
    """Flags of so many stripes."""

    module: ClassVar[str] = "aiperf.data.sets.flags"
    usual_start: ClassVar[str] = "digits_small"
    name: str = "flags"
    stripes: int = 3
    """Classes."""


DATA_SETS += (FlagsConf,)
''',
    "aiperf/data/sets/flags.py": """
from aiperf.data.dataset_config import SyntheticConf
from aiperf.data.prepare_report import nothing_to_check
from aiperf.data.sets import synthetic


def _made(conf):
    return SyntheticConf(name=conf.name, classes=conf.stripes, image=8, training_images=90, validation_images=30)


def describe(conf):
    return synthetic.describe(_made(conf))


def open_data(conf, cores):
    return synthetic.open_data(_made(conf), cores)


def prepare(conf, pack, out, checksums):
    return nothing_to_check(describe(conf), pack)
""",
    "conf/dataset/flags.yaml": "defaults:\n  - flags_schema\n",
}
SEARCHER = {
    "searchers/first_legal.py": """
from dataclasses import dataclass

from searchers.random_search import RandomSearch


@dataclass(frozen=True)
class FirstLegal(RandomSearch):
    name: str = "first_legal"
""",
    "searchers/searcher_config.py": '''

@dataclass
class FirstLegalConf(SearcherConf):
    """The first legal morph."""

    name: str = "first_legal"
    depth: int = 1
    """Morphs of a child."""

    def build(self) -> Searcher:
        from searchers.first_legal import FirstLegal

        return FirstLegal(self.depth)


SEARCHERS += (FirstLegalConf,)
''',
    "conf/searcher/first_legal.yaml": "defaults:\n  - first_legal_schema\n",
}
COLLECTIVE = {
    "aiperf/train/collectives/whisper.py": """
from aiperf.train.collectives.collective import SingleRank


class Whisper(SingleRank):
    name = "whisper 1.0"


def missing(*, on_cuda):
    return "nobody whispers to an accelerator" if on_cuda else None


def join(joining):
    return Whisper()
""",
    "aiperf/train/trainer_config.py": '\nCOLLECTIVES["whisper"] = "aiperf.train.collectives.whisper"\n',
}
SECTION = {
    "aiperf/report/sections/idle.py": """
from aiperf.report.plots.figure import drawn
from aiperf.report.section import DrawnFigure, Section
from aiperf.report.tables import pairs


def idle(report):
    svg, png, pdf = drawn(lambda figure: figure.subplots().plot([0, 1]), "idle", 2.0, "run x")
    table = pairs("idle", "Idle workers", [("all", str(len(report.workers)))], ("which", "number"))
    figure = DrawnFigure("idle", "Idle workers", "", "", svg, png, pdf)
    return Section("idle", "Idle workers", (figure, table), facts={"all": 1})
""",
    "aiperf/report/sections/__init__.py": """
from aiperf.report.sections import idle
SECTIONS += (idle.idle,)
""",
}
ASKED = """
import sys
from pathlib import Path
import torch
from aiperf.__main__ import main
from aiperf.config import as_plain, configure, from_plain
words = ["dataset=flags", "dataset.stripes=5", "searcher=first_legal", "searcher.depth=2", "trainer.collective=whisper"]
assert main(["dry_run=true", *words]) == 0
assert main(["prepare", *words]) == 0
assert main(["help", "options"]) == 0
conf = configure(words)
assert from_plain(as_plain(conf)) == conf
from aiperf.data.opening import open_data
with open_data(conf.dataset) as data:
    print("opened", data.description.name, data.description.classes)
print("built", conf.searcher.build().name)
from aiperf.train.collectives.choice import join
from aiperf.train.collectives.collective import Joining
joining = Joining(0, 2, Path("meeting"), torch.device("cpu"), False, lambda: None)
print("joined by", join(conf.trainer.collective, joining).name)
import json
main(["report", "run", "--out", "report"])
facts = json.loads(Path("report/report.json").read_text())
print("section", Path("report/plots/idle.svg").is_file(), 'id="idle"' in Path("report/report.html").read_text(), facts["idle"])
main(["dataset.stripes=5"])
main(["searcher=first_legel"])
main(["trainer.collective=wisper"])
"""


def _planted(added: dict[str, str], root: Path) -> None:
    for place, text in added.items():
        path = root / place
        path.write_text((path.read_text() if path.exists() else "") + text)


@pytest.mark.parametrize(
    "added", [DATA_SET, SEARCHER, COLLECTIVE, SECTION], ids=["data set", "searcher", "collective", "section"]
)
def test_the_places_are_at_most_three_and_those_that_the_page_names(added: dict[str, str]) -> None:
    page = (PROJECT / "docs" / "architecture.md").read_text().partition("## Where to add")[2].partition("\n## ")[0]

    assert len(added) <= 3
    for place in added:
        assert place in page or str(Path(place).parent) in page, place


def test_a_data_set_a_searcher_and_a_collective_added_there_are_whole(tmp_path: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(PROJECT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    for added in (DATA_SET, SEARCHER, COLLECTIVE, SECTION):
        _planted(added, tmp_path)

    (tmp_path / "run").mkdir()
    shutil.copy(GOLDEN, tmp_path / "run" / "journal.jsonl")

    answer = subprocess.run(
        [sys.executable, "-c", ASKED],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert answer.returncode == 0, answer.stderr
    assert "flags: 90 training and 30 validation images, 8×8×3, 5 classes" in answer.stdout
    assert "first graph  digits_small" in answer.stdout
    assert "search       first_legal; tpe from round 4" in answer.stdout
    assert "ranks (whisper)" in answer.stdout
    assert "dataset.stripes=3" in answer.stdout and "searcher.depth=1" in answer.stdout
    assert "opened flags 5\nbuilt first_legal\njoined by whisper 1.0\n" in answer.stdout
    assert "section True True {'all': 1}" in answer.stdout
    assert "dataset.stripes goes with dataset=flags" in answer.stderr
    assert "did you mean 'first_legal'?" in answer.stderr
    assert "is one of auto, horovod, torch, whisper, none; found 'wisper'" in answer.stderr
