"""`python -m aiperf topology` as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.rigs.user import User


def test_the_verb_takes_the_gradients_of_a_network(aiperf: User) -> None:
    answer = aiperf("topology", "torus:16x16", "--link", "62e9", "--network", "resnet50_v1_5", "--json")

    figures = json.loads(answer.out)
    assert figures["bytes"] == 102_228_128
    assert round(1e3 * figures["all_reduce_seconds"]["torus"], 3) == 0.821


def test_the_screen_shows_times_and_missing_figures(aiperf: User) -> None:
    full = aiperf("topology", "torus:3x3x3", "--link", "1e9", "--bytes", "1e6", "--alpha", "1e-6").out
    bare = aiperf("topology", "switch:64").out

    assert "torus:3x3x3: 27 nodes, 81 links, diameter 3" in full and "bisection: not in closed form" in full
    assert "ring 1.015 ms" in " ".join(full.split())
    assert "bisection: 32 links\n" in bare and "needs --link" in bare


def test_the_verb_loads_neither_torch_nor_ray() -> None:
    lines = (
        "import sys; from aiperf.__main__ import main; "
        "main('topology torus:4x4 --link 1e9 --network resnet20'.split()); "
        "print(sorted({'torch', 'ray', 'numpy'} & sys.modules.keys()))"
    )
    answer = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True)

    assert answer.stdout.endswith("[]\n"), answer.stdout + answer.stderr
