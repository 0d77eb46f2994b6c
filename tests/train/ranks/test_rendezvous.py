"""Servers that a start of ranks opens: one for Horovod only, and no connection to other hosts."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from aiperf.data.hostcache import SHARING
from aiperf.scratch import MARK
from aiperf.train.ranks import rendezvous
from aiperf.train.ranks.protocol import Recipe, seats
from aiperf.train.ranks.started_group import Ranks
from aiperf.train.trainer_config import TrainerConf
from morphism import encode
from tests.builders.order import IMAGES, plain_graph
from tests.rigs.processes import comes_true


@pytest.mark.parametrize(
    ("collective", "is_installed", "ranks", "meets_at_a_server"),
    [
        ("horovod", True, 2, True),
        ("auto", True, 2, True),
        ("auto", False, 2, False),
        ("torch", True, 2, False),
        ("auto", True, 1, False),
        ("none", True, 1, False),
    ],
)
def test_a_server_is_opened_only_for_horovod(
    collective: str,
    is_installed: bool,
    ranks: int,
    meets_at_a_server: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        rendezvous, "find_spec", lambda name: importlib.util.find_spec("json") if is_installed else None
    )
    recipe = Recipe(TrainerConf(collective=collective), IMAGES, encode(plain_graph()), tmp_path, 2, 0)
    before = set(threading.enumerate())

    shared = Ranks(recipe, seats([[None] * ranks]), 1, "here", "", ())
    try:
        shared.start()
        own = Path(f"/proc/{shared.statuses[0].pid}/environ")
        assert comes_true(lambda: "PATH=" in own.read_text()), (
            "the kernel shows it a moment after the program has begun"
        )
        environment = dict(entry.split("=", 1) for entry in own.read_text().split("\0") if entry)
        opened = [thread.name for thread in set(threading.enumerate()) - before]
        port = environment.get("HOROVOD_GLOO_RENDEZVOUS_PORT")

        assert opened == ["rendezvous"] * meets_at_a_server
        assert (port is not None) == meets_at_a_server
        if port is not None:
            socket.create_connection(("127.0.0.1", int(port)), timeout=30).close()
        assert environment["GLOO_SOCKET_IFNAME"] == environment["NCCL_SOCKET_IFNAME"] == "lo"
        assert Path(environment[SHARING]).stat().st_mode == 0o40700  # a name that nobody else can guess
    finally:
        assert shared.end() == []
    # the one that answered this test's own connection ends in its own time
    assert comes_true(lambda: set(threading.enumerate()) <= before)


_MAKE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from aiperf.train.ranks.host_ranks import HostRanks, RankStart
from aiperf.train.ranks.protocol import Recipe
from aiperf.train.ranks.protocol import seats
from aiperf.train.ranks.rendezvous import Directions
from aiperf.train.trainer_config import TrainerConf
from tests.builders.order import IMAGES

recipe = Recipe(TrainerConf(), IMAGES, "", Path(sys.argv[1]), 2, 0)
ranks = HostRanks(recipe, RankStart(seats([[None]]), 0, Directions(None, None), None))
print(ranks.folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_folder_of_killed_ranks_without_a_run_is_removed(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != MARK} | {"TMPDIR": str(tmp_path)}

    ended = subprocess.run(
        [sys.executable, "-c", _MAKE_AND_DIE, str(tmp_path / "run")], env=environment, capture_output=True, text=True
    )

    assert ended.returncode == -signal.SIGKILL and Path(ended.stdout.strip()).parent == tmp_path, ended.stderr
    assert comes_true(lambda: [path.name for path in tmp_path.iterdir()] == ["run"])
