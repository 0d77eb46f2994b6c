"""Table of verbs' files × hostile kinds of file. A later verb or kind is one more entry here.

`{FILE}` in a command is the hostile file. `{RUN}` is a sound run, `{SYSTEM}` a sound file of `hpl`, `{HPL}` an output of HPL.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

from aiperf.journal.journal import NAME, Journal
from tests.scaling.test_scale import run_of

TESTS = Path(__file__).parents[1]
SYSTEM = TESTS.parent / "examples" / "hpl" / "p100.yaml"
HPL = TESTS / "borders" / "data" / "hpl23_plain.out"

FILES = {
    "announce --key": f"announce --log new.jsonl --key {{FILE}} --nonce-by SHA256:{43 * 'A'}",
    "announce --log": f"announce --log {{FILE}} --key {{FILE}} --nonce-by SHA256:{43 * 'A'}",
    "bops count": "bops count {FILE}",
    "bops count --commands": "bops count --binary /bin/true --commands {FILE}",
    "bops count --input": "bops count --binary /bin/true --commands {FILE} --input {FILE}",
    "breakdown --timeline": "breakdown --timeline {FILE}",
    "breakdown --trace": "breakdown --trace {FILE}",
    "check --division": "check {RUN} --division {FILE}",
    "flops": "flops {FILE}",
    "hpl explain": "hpl explain {FILE} --system {SYSTEM}",
    "hpl explain --system": "hpl explain {HPL} --system {FILE}",
    "hpl measure --system": "hpl measure --binary /bin/true --system {FILE}",
    "hpl predict": "hpl predict {FILE}",
    "inspect": "inspect {FILE}",
    "inspect --allowed": "inspect {RUN}/journal.jsonl --allowed {FILE}",
    "inspect --division": "inspect {RUN}/journal.jsonl --division {FILE}",
    "morph": "morph {FILE}",
    "predict --again": "predict --again {FILE}",
    "predict=": "predict={FILE} executor=inline preflight.probes=none runs=made",
    "prepare, record of weather": "prepare dataset=weather dataset.root=set",
    "quality --detections": "quality --detections {FILE}",
    "rank --announcements": "rank {RUN} --announcements {FILE}",
    "report --roofs": "report {RUN} --out report --roofs {FILE}",
    "roofline": "roofline {FILE} {FILE}",
    "roofline --peak": "roofline resnet20 --peak {FILE}",
    "scale --points": "scale {SWEEP} --points {FILE}",
    "scale --predicted": "scale {SWEEP} --predicted folder",
    "standing --list": "standing {RUN} --list {FILE}",
    "start=": "start={FILE} dry_run=true",
    "status, id of a job": "status run",
    "submit --key": "submit {RUN} --key {FILE}",
    "system.file=": "system.file={FILE} dry_run=true",
    "score, form of a meter": "score run",
    "score, table of a meter": "score run",
    "topology --network": "topology ring:4 --network {FILE}",
}
"""Command by verb and file."""
IN_A_RUN = {
    "score, form of a meter": "power/rack.yaml",
    "score, table of a meter": "power/rack.csv",
    "status, id of a job": "job.json",
}
METER = {
    "power/rack.yaml": "{nodes: 16, measured: [nodes], estimated: [storage], point: upstream, integrated: true, device: x}",
    "power/rack.csv": "unix_seconds,watts,joules\n"
    + "".join(f"{at},{200 + at % 7},{200 * at}\n" for at in range(1795368540, 1795368740, 20)),
}
"""Files of a meter by name in the folder of the real run."""
RUNS = {
    "breakdown": "breakdown {FILE}",
    "check": "check {FILE}",
    "check --against": "check {RUN} --against {FILE}",
    "compare": "compare {RUN} {FILE}",
    "export": "export {FILE} --to csv",
    "follow=": "follow={FILE} dry_run=true",
    "predict --from": "predict --from {FILE}",
    "quality": "quality {FILE}",
    "rank": "rank {FILE}",
    "report": "report {FILE}",
    "resume=": "resume={FILE}",
    "roofline of a run": "roofline {FILE}",
    "scale": "scale {FILE} {FILE}",
    "score": "score {FILE}",
    "standing": "standing {FILE} --list {FILE}",
    "status": "status {FILE}",
    "submit": "submit {FILE} --key {FILE}",
    "verify": "verify {FILE}",
}
"""Command by verb that takes a run. The hostile file is in the place of the run or of its journal."""
IN_PLACE_OF_A_RUN = ("a FIFO", "a device", "a dangling link", "a circular link", "missing")


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2 << 30)


def _links(path: Path) -> None:
    path.symlink_to(path.name)


KINDS: dict[str, Callable[[Path], object]] = {
    "a FIFO": _fifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": lambda path: path.mkdir(),
    "a dangling link": lambda path: path.symlink_to("nowhere"),
    "a circular link": _links,
    "missing": lambda path: None,
    "empty": lambda path: path.touch(),
    "100,000 brackets": lambda path: path.write_text("[" * 100_000),
    "100,000 objects": lambda path: path.write_text('{"a":' * 100_000),
    "400 digits": lambda path: path.write_text('{"format": ' + "9" * 400 + "}"),
    "5000 digits": lambda path: path.write_text("[" + "9" * 5000 + "]"),
    "a list": lambda path: path.write_text('[1, "x", null]'),
    "a number": lambda path: path.write_text("1"),
    "null": lambda path: path.write_text("null"),
    "an empty object": lambda path: path.write_text("{}"),
    "a key twice": lambda path: path.write_text('{"format": 1, "format": 2}'),
    "null bytes": lambda path: path.write_bytes(b"{}\n" + bytes(5000)),
    "no UTF-8": lambda path: path.write_bytes(b'{"a": "\xff\xfe"}'),
    "half a character": lambda path: path.write_text(r'{"a": "\ud800"}'),
    "a line of 2 GB": _sparse,
}
"""Functions that make a hostile file, by its name."""


ACCEPTED = {
    ("rank --announcements", "empty"),
    ("score, form of a meter", "missing"),
    ("status, id of a job", "missing"),
    ("system.file=", "an empty object"),
}
"""Files that are no fault of their verb."""


def place(folder: Path, row: str, kind: str, make: Callable[[Path], object] | None = None) -> list[str]:
    """Make the hostile file in an empty folder. Return the words of the command, for this folder as the working folder.

    `make`: makes another file instead.
    """
    file = folder / ("file.json" if row.startswith("roofline") else "file")
    words = (FILES | RUNS)[row]
    if row in RUNS and kind not in IN_PLACE_OF_A_RUN:
        words = words.replace("{FILE}", "{JOURNAL}")
        file = folder / "run" / NAME
    if row == "scale --predicted":
        file = folder / "folder" / "within-worker.json"
    elif row == "prepare, record of weather":
        file = folder / "set" / "aiperf-weather.json"
        file.parent.mkdir()
        (file.parent / "climo_1990.h5").touch()
    elif row in IN_A_RUN:
        shutil.copytree(sound_run(folder.parent), folder / "run")
        (folder / "run" / "power").mkdir()
        for name, content in METER.items():
            if row.endswith("meter") and name != IN_A_RUN[row]:
                (folder / "run" / name).write_text(content)
        file = folder / "run" / IN_A_RUN[row]
    file.parent.mkdir(exist_ok=True, parents=True)
    (make or KINDS[kind])(file)
    values = {
        "FILE": file.name,
        "RUN": shlex.quote(str(sound_run(folder.parent))),
        "SWEEP": shlex.join(str(sound_run(folder.parent, ranks)) for ranks in (1, 2)) if "{SWEEP}" in words else "",
        "SYSTEM": shlex.quote(str(SYSTEM)),
        "HPL": shlex.quote(str(HPL)),
        "JOURNAL": "run",
    }
    return shlex.split(words.format(**values))


def sound_run(place: Path, ranks: int | None = None) -> Path:
    """Return a folder with a sound run, made below `place` if it is missing: a real one, or an invented one with `ranks`."""
    run = place / f"sound{ranks or ''}"
    if not run.exists():
        run.mkdir()
        if ranks is None:
            shutil.copy(TESTS / "golden" / "resumed-v5.jsonl", run / NAME)
        else:
            with Journal(run / NAME) as journal:
                journal.append(run_of(ranks))
    return run
