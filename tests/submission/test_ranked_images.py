"""A first ranked run: ImageNet from archives of the original layout, announced, run, submitted, inspected and ranked."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from torchvision.datasets import imagenet

from aiperf.__main__ import main
from aiperf.journal.events import RunStarted
from aiperf.journal.journal import read
from aiperf.leaderboard import leaderboard
from aiperf.ranking import division
from aiperf.submission.announcement_file import read_log
from morphism import Graph, Input, encode
from tests.builders.data_set import picture
from tests.builders.order import plain_graph
from tests.builders.submission import allowed_file, fingerprint, key_file

CLASSES = ("n01440764", "n01443537", "n01484850")
RULES = """
division: small
title: a few images from archives
chosen: {dataset: imagenet}
judged: {}
free: {}
rules:
  - {id: error, text: any error, source: [decided], fact: error, law: {at_most: 1}, remedy: none}
"""
RULE = """  - {{id: {fact}, text: a rule, source: [decided], fact: {fact}, law: {{equals: {value}}}, remedy: none}}
"""


def jpeg(label: int, number: int) -> bytes:
    written = io.BytesIO()
    picture(240, 256, label, number).save(written, "JPEG")
    return written.getvalue()


def tar(members: Mapping[str, bytes], mode: str = "w") -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode=mode) as file:  # type: ignore[call-overload]  # a mode that is no literal
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            file.addfile(entry, io.BytesIO(content))
    return written.getvalue()


def devkit() -> bytes:
    """As the development kit: the synsets with their numbers, of which the last is no class, and a number of each image."""
    fields = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O"), ("gloss", "O"), ("num_children", "O")]
    rows = [(3 - label, name, f"class {label}, again", "", 0) for label, name in enumerate(CLASSES)]
    meta = io.BytesIO()
    scipy.io.savemat(meta, {"synsets": np.array([*rows, (4, "n00000001", "all", "", 3)], fields)})
    truth = "".join(f"{3 - number % 3}\n" for number in range(6)).encode()
    folder = "ILSVRC2012_devkit_t12/data/"
    return tar({f"{folder}meta.mat": meta.getvalue(), f"{folder}ILSVRC2012_validation_ground_truth.txt": truth}, "w:gz")


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Archives of the original layout, whose sums are the published ones."""
    (folder := tmp_path / "downloads").mkdir()
    of_class = {
        f"{name}.tar": tar({f"{name}_{number}.JPEG": jpeg(label, number) for number in range(8)})
        for label, name in enumerate(CLASSES)
    }
    images = {f"ILSVRC2012_val_{number + 1:08d}.JPEG": jpeg(number % 3, 100 + number) for number in range(6)}
    contents = {"train": tar(of_class), "val": tar(images), "devkit": devkit()}
    for split, content in contents.items():
        name = imagenet.ARCHIVE_META[split][0]
        (folder / name).write_bytes(content)
        monkeypatch.setitem(imagenet.ARCHIVE_META, split, (name, hashlib.md5(content).hexdigest()))
    return folder


@pytest.mark.slow
def test_a_run_on_archives_goes_from_prepare_to_its_place(
    archives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("set").mkdir()
    entry, conv, relu, *end = plain_graph().nodes[:3] + plain_graph().nodes[5:]
    end = [replace(node, inputs=(2 + at,)) for at, node in enumerate(end)]
    # no convolution with a stride: torch 2.13 crashes in the backward pass of the skip over it at 224×224 (FP32, AVX-512)
    Path("start.json").write_text(encode(Graph((replace(entry, op=Input(3, 224, 224)), conv, relu, *end))))
    signers = str(allowed_file(tmp_path, a=key_file(tmp_path), b=key_file(tmp_path, "other")))
    facts = {"contents": "shown", "seed_source": "announcement", "is_system_named": "true", "is_simulated": "false"}
    rules = RULES + "".join(RULE.format(fact=fact, value=value) for fact, value in facts.items())
    Path("small.yaml").write_text(rules)
    small = division.division("small.yaml")
    built_in = division._built_in
    monkeypatch.setattr(division, "_built_in", lambda name: small if name == "ranking" else built_in(name))
    monkeypatch.setattr(leaderboard, "side_processes", ThreadPoolExecutor)  # of this process, for that division
    words = [
        "dataset=imagenet",
        "dataset.root=set",
        "start=start.json",
        "executor=inline",
        "searcher=random",
        "hpo=off",
    ]
    words += [
        "schedule.duration_seconds=30",
        "schedule.warmup_seconds=1",
        "schedule.epochs=[1,1,1,1]",
        "batch.default=8",
    ]
    words += ["system.site=a", "system.name=one", "trainer.ranks=1", "trainer.precision=fp32", "trainer.compile=off"]

    assert main(["prepare", "dataset=imagenet", "dataset.root=set", "--archives", str(archives)]) == 0
    contents = json.loads(Path("set/aiperf-folders.index").read_bytes().splitlines()[1])["seal"]["contents"]
    announced = ["--key", "key", "--log", "log", "--nonce-by", fingerprint(tmp_path / "other")]
    assert main(["announce", *words, *announced]) == 0
    wanted = read_log(Path("log")).entries[0].id
    assert main(["announce", "--nonce", wanted, "--key", "other", "--log", "log"]) == 0
    run_words = [sys.executable, "-m", "aiperf", *words, f"announcement={wanted}", "announcement_log=log"]
    subprocess.run(run_words, check=True, timeout=600, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    (run,) = map(str, Path("runs").iterdir())
    assert main(["submit", run, "--key", "key", "--log", "log", "--out", "bundle"]) == 0
    assert main(["inspect", "bundle", "--allowed", signers, "--division", "small.yaml"]) == 0
    capsys.readouterr()
    assert (
        main(["rank", run, "--announcements", "log", "--allowed", signers, "--images", contents, "--out", "list"]) == 0
    )

    first = next(iter(read(Path(run))))
    assert isinstance(first, RunStarted)
    assert first.dataset["contents"] == contents
    assert {name: sums["sha256"] for name, sums in first.dataset["archives"].items()} == {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in archives.iterdir()
    }
    listed = json.loads(Path("list/rank.json").read_text())["lists"][0]["rows"][0]
    assert (listed["place"], listed["entry"]["benchmark"]["division"]) == (1, "ranking")
    page = Path("list/rank.html").read_text()
    assert f"contents {contents}, reported by 1 site; from archives with the published sums: ILSVRC2012" in page
