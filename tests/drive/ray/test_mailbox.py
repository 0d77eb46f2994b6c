"""Words come to the driver once, in the order in which a worker said them, whatever becomes of the mailbox."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest
import ray
from ray.actor import ActorHandle

from aiperf.drive.ray import mailbox
from aiperf.drive.ray.mailbox import Post, Sender
from aiperf.journal.messages import Done

WORDS = 1500


@ray.remote(num_cpus=1)
class Talker:
    def talk(self, mailbox: ActorHandle[Any], words: int, pause_seconds: float) -> None:
        sender = Sender(mailbox)
        for number in range(words):
            sender.put([Done(trial=number, attempt=1, reason="epochs")])
            time.sleep(pause_seconds)
        while not sender.is_read:
            sender.put([])
            time.sleep(0.05)


def heard_of(post: Post, timeout: float = 5.0) -> list[int]:
    return [word.trial for word in post.take(timeout) or [] if isinstance(word, Done)]


def test_words_that_follow_each_other_closely_arrive_in_the_order_in_which_they_were_said(own_ray: None) -> None:
    """Sent without waiting, some hundred of these change places."""
    post = Post()
    talking = Talker.remote().talk.remote(post.mailbox, WORDS, 0.0)  # type: ignore[attr-defined]
    heard: list[int] = []
    while len(heard) < WORDS:
        heard += heard_of(post)
    post.take(0.1)  # says that the last ones were read
    ray.get(talking)

    assert heard == list(range(WORDS))


@pytest.mark.parametrize("strike", [signal.SIGKILL, signal.SIGSTOP])
def test_no_word_is_lost_doubled_or_overtaken_when_the_mailbox_is_killed_or_stopped(
    own_ray: None, monkeypatch: pytest.MonkeyPatch, strike: signal.Signals
) -> None:
    monkeypatch.setattr(mailbox, "STOPPED_SECONDS", 0.5)
    post = Post()
    talkers = [Talker.options(num_cpus=0).remote() for _ in range(2)]  # type: ignore[attr-defined]
    talking = [talker.talk.remote(post.mailbox, 60, 0.05) for talker in talkers]
    heard: list[int] = []
    struck: list[int] = []
    deadline = time.monotonic() + 120
    while len(heard) < 120 and time.monotonic() < deadline:
        heard += heard_of(post, 0.2)
        if len(heard) > 30 * (1 + len(struck)) and len(struck) < 2 and post.pid not in (None, *struck):
            struck.append(post.pid or 0)
            os.kill(struck[-1], strike)
    while ray.wait(talking, num_returns=2, timeout=0.0)[1] and time.monotonic() < deadline:
        heard += heard_of(post, 0.2)

    assert len(struck) == 2
    assert sorted(heard) == sorted([*range(60), *range(60)])
    assert [number for at, number in enumerate(heard) if number not in heard[:at]] == list(range(60))
