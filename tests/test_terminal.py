"""Output on terminals with an encoding that lacks some characters."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiperf.cli.output import set_up

PLACES = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "the C locale": {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
}
"""Terminals without UTF-8. Python uses UTF-8 for LANG=C alone."""
SIMULATED = (
    *("+cluster=simulated", "cluster.workers=4", "cluster.accelerators=1", "cluster.flops=2e9", "dataset=synthetic"),
    *("dataset.image=8", "dataset.channels=1", "dataset.training_images=400", "dataset.validation_images=100"),
    *("start=digits_small", "budget.batch=8", "searcher=random", "hpo=off", "schedule.duration_seconds=600"),
    *("schedule.warmup_seconds=100", "schedule.epochs=[2]"),
)
COMMANDS = """
from pathlib import Path
from aiperf.__main__ import main
for words in WORDS:
    words = [str(next(Path("runs").glob("*synthetic"))) if word == "RUN" else word for word in words]
    try:
        main(words)
    except SystemExit:
        pass
print("all were carried out")
"""


@pytest.mark.parametrize(
    "place", [pytest.param(name, marks=() if name == "ascii" else pytest.mark.slow) for name in PLACES]
)
def test_output_of_commands_is_printed_on_any_terminal(place: str, tmp_path: Path) -> None:
    words = [
        *(["--help"], ["rank", "--help"], ["flops", "resnet20"], ["morph", "resnet20", "--steps", "2"], [*SIMULATED]),
        *([*SIMULATED, "dry_run=true"], ["dry_run=true"], ["score", "RUN"], ["check", "RUN"], ["rank", "RUN"], ["×"]),
    ]

    answer = subprocess.run(
        [sys.executable, "-c", COMMANDS.replace("WORDS", ascii(words))],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name not in ("LC_ALL", "LANG", "LC_CTYPE")}
        | PLACES[place],
        capture_output=True,
        timeout=300,
    )

    said = answer.stdout.decode("latin-1" if place == "latin-1" else "ascii")
    assert answer.returncode == 0, answer.stderr.decode("latin-1")
    assert "all were carried out" in said
    assert "Traceback" not in answer.stderr.decode("latin-1")


def test_a_missing_character_is_replaced_and_others_stay() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="latin-1")
    set_up(stream)
    stream.write("2 × 3 ≤ 7, 80 °C")
    stream.flush()

    assert raw.getvalue().decode("latin-1") == "2 × 3 ? 7, 80 °C"
