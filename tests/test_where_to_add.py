"""Additions that docs/architecture.md describes under "Where to add", made in a copy of the sources.

A data set, a searcher, a collective and a section of the report take at most three places each, all named on that page. A
complete system takes new files in one folder and at most six changed lines elsewhere.
"""

from __future__ import annotations

import difflib
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
from aiperf.data.sets import synthetic


def _made(conf):
    return SyntheticConf(name=conf.name, classes=conf.stripes, image=8, training_images=90, validation_images=30)


def describe(conf):
    return synthetic.describe(_made(conf))


def open_data(conf, cores):
    return synthetic.open_data(_made(conf), cores)


def prepare(conf, pack, out, checksums):
    return synthetic.prepare(_made(conf), pack, out, checksums)
""",
    "conf/dataset/flags.yaml": "defaults:\n  - flags_schema\n",
}
SEARCHER = {
    "searchers/first_legal.py": """
from dataclasses import dataclass

from searchers.evolution import RandomSearch


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
from aiperf.page.figure import drawn
from aiperf.page.section import DrawnFigure, Section, rows


def idle(report):
    svg, png, pdf = drawn(lambda figure: figure.subplots().plot([0, 1]), "idle", 2.0, "run x")
    table = rows("idle", "Idle workers", ("which", "number"), [("all", str(len(report.workers)))])
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
from aiperf.train.collectives.collective import join
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

PROBES, READING = "aiperf/measure/all_probes.py", "aiperf.measure.probe"
"""List of the probes, and module of their results."""
SYSTEM = {
    "aiperf/toy/__init__.py": "",
    "aiperf/toy/probe.py": f"""
from typing import ClassVar
from {READING} import ProbeReading


class Toy:
    name: ClassVar[str] = "toy"
    unit: ClassVar[str] = "B/s"

    def measure(self, setting):
        return ProbeReading(probe=self.name, unit=self.unit, series={{"host": [2.0, 3.0]}})
""",
    "aiperf/toy/log.py": """
import io
from typing import Literal
import msgspec
from aiperf.journal.sealed_log import ORIGIN, SealedLines, sealed


class Measured(msgspec.Struct, frozen=True, tag_field="event", tag="Measured"):
    rate: float


def written(rates):
    chain, lines = ORIGIN, []
    for rate in rates:
        line, chain = sealed(chain, msgspec.json.encode(Measured(rate)))
        lines.append(line)
    return b"".join(lines)


def read(content):
    decode = msgspec.json.Decoder(Measured).decode
    accept = lambda record: None
    return list(SealedLines(io.BytesIO(content), decode, accept, accept, of=("measurement", "toy")))
""",
    "aiperf/toy/section.py": """
from aiperf.page.figure import drawn
from aiperf.page.section import DrawnFigure, Section, rows
from aiperf.toy.log import read, written


def toy(report):
    rates = [one.rate for one in read(written([2.0, 3.0]))]
    svg, png, pdf = drawn(lambda figure: figure.subplots().plot(rates), "toy", 2.0, "run x")
    table = rows("toy", "Rates", ("repetition", "rate"), [(str(at), str(rate)) for at, rate in enumerate(rates)])
    return Section("toy", "Toy", (DrawnFigure("toy", "Toy", "", "", svg, png, pdf), table), facts={"rates": rates})
""",
    "aiperf/toy/verb.py": """
DESCRIPTION = "Print the measurements of the toy probe."
EXAMPLES = ("runs/20261121-120000-digits",)


def add_arguments(parser):
    parser.add_argument("rates", nargs="+", type=float)


def execute(arguments, options):
    from aiperf.toy.log import read, written

    print("measured", *(one.rate for one in read(written(arguments.rates))))
    return 0
""",
    "aiperf/toy/division.yaml": """
division: toy
title: Runs without a resume
chosen: {}
rules:
  - id: one-go
    text: "the run is not interrupted"
    source: [decided]
    fact: resumes
    law: {equals: 0}
    remedy: "run it again"
judged: {}
free: {}
""",
}
CHANGES = {
    PROBES: [
        (
            "from __future__ import annotations\n",
            "from __future__ import annotations\nfrom aiperf.toy.probe import Toy\n",
        ),
        ("Accelerators(), Data(nodes))", "Accelerators(), Data(nodes), Toy())"),
    ],
    "aiperf/report/sections/__init__.py": [
        (
            "from __future__ import annotations\n",
            "from __future__ import annotations\nfrom aiperf.toy.section import toy\n",
        ),
        ("    configuration.configuration,\n", "    configuration.configuration,\n    toy,\n"),
    ],
    "aiperf/cli/arguments.py": [('    "tools": {\n', '    "tools": {\n        "toy": "print toy measurements",\n')],
    "aiperf/cli/verbs/tools/toy.py": [("", "from aiperf.toy.verb import *\n")],
}
"""Replacements by file. A verb has a module of its name in aiperf/cli/verbs/GROUP."""
USE_OF_SYSTEM = f"""
import json
from pathlib import Path
from aiperf.__main__ import main
from {PROBES.removesuffix(".py").replace("/", ".")} import quick
(probe,) = (probe for probe in quick() if probe.name == "toy")
print("probe", probe.measure(None).best())
assert main(["toy", "2", "3"]) == 0
print("rule", main(["check", "run", "--division", "aiperf/toy/division.yaml"]))
main(["report", "run", "--out", "report"])
facts = json.loads(Path("report/report.json").read_text())
print("section", Path("report/plots/toy.svg").is_file(), 'id="toy"' in Path("report/report.html").read_text(), facts["toy"])
"""


def _planted(added: dict[str, str], root: Path) -> None:
    for place, text in added.items():
        path = root / place
        path.write_text((path.read_text() if path.exists() else "") + text)


@pytest.mark.parametrize(
    "added", [DATA_SET, SEARCHER, COLLECTIVE, SECTION], ids=["data set", "searcher", "collective", "section"]
)
def test_an_addition_takes_at_most_three_documented_places(added: dict[str, str]) -> None:
    page = (PROJECT / "docs" / "architecture.md").read_text().partition("## Where to add")[2].partition("\n## ")[0]

    assert len(added) <= 3
    for place in added:
        assert place in page or str(Path(place).parent) in page, place


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Return a copy of the sources with a run."""
    for package in PACKAGES:
        shutil.copytree(PROJECT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "run").mkdir()
    shutil.copy(GOLDEN, tmp_path / "run" / "journal.jsonl")
    return tmp_path


def _python(program: str, sources: Path) -> subprocess.CompletedProcess[str]:
    answer = subprocess.run(
        [sys.executable, "-c", program],
        cwd=sources,
        env={**os.environ, "PYTHONPATH": str(sources)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return answer


def test_a_toy_system_takes_one_folder_and_six_lines_elsewhere(sources: Path) -> None:
    """One probe, one sealed log, one section, one verb and one rule."""
    (sources / "aiperf" / "toy").mkdir()
    _planted(SYSTEM, sources)
    changed = 0
    for place, replacements in CHANGES.items():
        path = sources / place
        before = after = path.read_text() if path.exists() else ""
        for old, new in replacements:
            assert not old or after.count(old) == 1, (place, old)
            after = after.replace(old, new) if old else new
        path.write_text(after)
        lines = difflib.ndiff(before.splitlines(), after.splitlines())
        changed += sum(line.startswith("+ ") for line in lines)

    answer = _python(USE_OF_SYSTEM, sources)

    assert {str(Path(place).parent) for place in SYSTEM} == {"aiperf/toy"}
    assert changed <= 6
    assert "probe 3.0\n" in answer.stdout
    assert "measured 2.0 3.0\n" in answer.stdout
    assert "rule 1\n" in answer.stdout, "the run was resumed"
    assert "section True True {'rates': [2.0, 3.0]}" in answer.stdout


def test_a_data_set_a_searcher_and_a_collective_can_be_added(sources: Path) -> None:
    for added in (DATA_SET, SEARCHER, COLLECTIVE, SECTION):
        _planted(added, sources)

    answer = _python(ASKED, sources)

    assert "flags: 90 training and 30 validation images, 8×8×3, 5 classes" in answer.stdout
    assert "first graph  digits_small" in answer.stdout
    assert "search       first_legal; tpe from round 4" in answer.stdout
    assert "ranks (whisper)" in answer.stdout
    assert "dataset.stripes=3" in answer.stdout and "searcher.depth=1" in answer.stdout
    assert "opened flags 5\nbuilt first_legal\njoined by whisper 1.0\n" in answer.stdout
    assert "section True True {'all': 1}" in answer.stdout
    assert "dataset.stripes goes with dataset=flags" in answer.stderr
    assert "did you mean 'first_legal'?" in answer.stderr
    assert "is one of auto, horovod, torch, whisper, none, but found 'wisper'" in answer.stderr
