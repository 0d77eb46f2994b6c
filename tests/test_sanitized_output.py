"""No control character of a journal, a file or an option reaches the terminal, a job script or a manifest."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiperf.__main__ import main
from aiperf.console import SanitizedConsole
from aiperf.sanitize import sanitize
from tests.builders.forged_journal import Line, lines_of, write

HOSTILE = "a\x1b]8;;http://x\x07\x1b[2J\x9b2J\u202eb\u2066c\x7f"
"""A link (OSC), an erased screen (ESC and C1), reversed text (bidi) and DEL."""
GOLDEN = lines_of(Path(__file__).parent / "golden" / "resumed-v5.jsonl")
KEPT = (
    *("event", "config_hash", "fingerprint", "metric", "start_graph", "morphs", "cause", "tuned_by", "by", "helper"),
    *("precision", "config", "boot_id", "reason", "device", "collective", "cut_sha256"),
)
"""Members that a reader checks or compares. `reason`, `device`, `collective` and `precision` are hostile in most lines."""


def hostile(value: Any, name: str = "") -> Any:
    """Return the value with a hostile end of each text that may be any text."""
    if isinstance(value, dict):
        return {key: inside if key in KEPT else hostile(inside, key) for key, inside in value.items()}
    if isinstance(value, list):
        return [hostile(inside, name) for inside in value]
    return value + HOSTILE if isinstance(value, str) else value


def hostile_run(folder: Path) -> str:
    lines: list[Line] = [hostile(copy.deepcopy(line)) for line in GOLDEN]
    for line in lines:
        for name in ("reason", "device", "collective", "precision"):
            if name in line and line["event"] not in ("RunEnded", "TrialFinished"):
                line[name] += HOSTILE
    return str(write(folder, lines))


def hidden(text: str) -> set[str]:
    return {character for character in text if character not in "\n\t" and sanitize(character) != character}


RUN_VERBS = (
    *(
        "status",
        "score",
        "report",
        "check",
        "verify",
        "breakdown",
        "roofline",
        "compare OTHER",
        "scale OTHER",
        "rank",
    ),
    *(
        "status --json",
        "score --json",
        "verify --json",
        "export --to csv --out OUT",
        "predict --again",
        "submit --out OUT",
    ),
)


@pytest.mark.parametrize("verb", RUN_VERBS)
def test_no_text_of_a_journal_moves_the_cursor(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = hostile_run(tmp_path / f"run{HOSTILE.replace('/', '')}")
    other = hostile_run(tmp_path / "other")

    assert main([*verb.replace("OTHER", other).replace("OUT", str(tmp_path / "out")).split(), run]) in (0, 1, 2)

    said = capsys.readouterr()
    assert said.out + said.err and not hidden(said.out + said.err)


def yaml_of(folder: Path) -> list[str]:
    path = folder / "division.yaml"
    path.write_text(json.dumps({"name": HOSTILE, "title": HOSTILE, "rules": [{"id": HOSTILE, "rule": HOSTILE}]}))
    return ["check", str(write(folder / "run", GOLDEN)), "--division", str(path)]


def prediction(folder: Path) -> list[str]:
    (folder / "prediction.json").write_text(json.dumps({"format": HOSTILE}))
    return ["predict", "--again", str(folder / "prediction.json")]


def system(folder: Path) -> list[str]:
    (folder / "system.yaml").write_text(json.dumps({"name": HOSTILE, HOSTILE: 1}))
    return ["hpl", "predict", str(folder / "system.yaml")]


def bundle(folder: Path) -> list[str]:
    (folder / f"x{HOSTILE.replace('/', '')}").write_bytes(b"x")
    return ["inspect", str(folder / f"x{HOSTILE.replace('/', '')}")]


FILES: dict[str, Callable[[Path], list[str]]] = {
    "a division": yaml_of,
    "a prediction": prediction,
    "a system of HPL": system,
    "a submission": bundle,
    "a verb": lambda _: [f"status{HOSTILE}"],
    "an option": lambda _: [f"seed{HOSTILE}=1"],
    "a value": lambda _: [f"dataset={HOSTILE}"],
    "a network": lambda _: ["flops", HOSTILE],
    "an argument": lambda _: ["score", "--json", "--x" + HOSTILE],
}


@pytest.mark.parametrize("words", FILES.values(), ids=FILES)
def test_no_text_of_a_file_or_an_option_moves_the_cursor(
    words: Callable[[Path], list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(words(tmp_path))
    except SystemExit as exiting:  # argparse
        status = int(exiting.code or 0)

    said = capsys.readouterr()
    assert status in (1, 2) and said.out + said.err and not hidden(said.out + said.err)


def test_a_console_keeps_its_own_codes_alone(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--version"])  # the streams are sanitized from here on
    SanitizedConsole(force_terminal=True, color_system="standard").print(f"[bold]{HOSTILE}[/bold]", highlight=False)
    print(HOSTILE, file=sys.stdout)

    of_rich = sanitize(HOSTILE.replace("\x07", ""))  # rich removes the bell itself
    _, styled, plain = (capsys.readouterr().out.strip("\n")).rsplit("\n", 2)
    assert (styled, plain) == (f"\x1b[1m{of_rich}\x1b[0m", sanitize(HOSTILE))


@pytest.mark.parametrize("kind", ["slurm", "kubernetes"])
@pytest.mark.parametrize("option", ["system.notes", "name", "start", "dataset.root", "runs", "schedule.epochs"])
def test_no_control_character_of_an_option_is_in_a_script(
    kind: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    needs = {"kubernetes": ["cluster.image=x/y:1"], "slurm": []}[kind]
    for control in ("\n", "\x9b"):
        words = [
            f"+cluster={kind}",
            "cluster.submit=false",
            "dataset=images",
            f"{option}=x{control}touch EVIL #",
            *needs,
        ]
        if option != "dataset.root":
            words.append("dataset.root=/data")

        assert main(words) == 2
        said = capsys.readouterr()
        assert said.err.startswith("aiperf: ") and "touch EVIL" not in said.out
