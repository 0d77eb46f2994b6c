"""Messages reach the driver once, in the order of their worker, even if the mailbox dies."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.actor import ActorHandle

from aiperf.drive.ray import mailbox
from aiperf.drive.ray.mailbox import MailboxOwner, Sender
from aiperf.journal.messages import TrialDone

WORDS = 1500
PATIENCE_SECONDS = 600.0
"""Far more than anything here takes."""


@ray.remote(num_cpus=1)
class Talker:
    def talk(self, mailbox: ActorHandle[Any], words: int, pause_seconds: float) -> None:
        sender = Sender(mailbox)
        for number in range(words):
            sender.put([TrialDone(trial=number, attempt=1, reason="epochs")])
            time.sleep(pause_seconds)
        self._flush(sender)

    def talk_until(self, mailbox: ActorHandle[Any], over: Path) -> int:
        """Send messages until the file exists. Return their number."""
        sender, number = Sender(mailbox), 0
        while not over.exists():
            sender.put([TrialDone(trial=number, attempt=1, reason="epochs")])
            number += 1
            time.sleep(0.05)
        self._flush(sender)
        return number

    def _flush(self, sender: Sender) -> None:
        while not sender.is_read:
            sender.put([])
            time.sleep(0.05)


def heard_of(post: MailboxOwner, timeout: float = 5.0) -> list[int]:
    return [word.trial for word in post.take(timeout) or [] if isinstance(word, TrialDone)]


def test_messages_in_quick_succession_arrive_in_order(own_ray: None) -> None:
    """Sent without waiting, some hundred of these change places."""
    post = MailboxOwner()
    talking = Talker.remote().talk.remote(post.mailbox, WORDS, 0.0)  # type: ignore[attr-defined]
    heard: list[int] = []
    while len(heard) < WORDS:
        heard += heard_of(post)
    post.take(0.1)  # confirms the last messages
    ray.get(talking)

    assert heard == list(range(WORDS))


@pytest.mark.parametrize("strike", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)])
def test_a_killed_or_stopped_mailbox_loses_no_message(
    own_ray: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, strike: signal.Signals
) -> None:
    monkeypatch.setattr(mailbox, "STOPPED_SECONDS", 0.5)
    post = MailboxOwner()
    talkers = [Talker.options(num_cpus=0).remote() for _ in range(2)]  # type: ignore[attr-defined]
    over = tmp_path / "over"
    talking = [talker.talk_until.remote(post.mailbox, over) for talker in talkers]
    heard: list[int] = []
    struck: list[int] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not over.exists():  # however long a new mailbox takes to come up
        assert time.monotonic() < deadline, f"struck {len(struck)} times, heard {len(heard)} words"
        heard += heard_of(post, 0.2)
        if len(heard) > 30 * (1 + len(struck)) and post.pid not in (None, *struck):
            if len(struck) == 2:
                over.touch()
            else:
                struck.append(post.pid or 0)
                os.kill(struck[-1], strike)
    while ray.wait(talking, num_returns=2, timeout=0.0)[1] and time.monotonic() < deadline:
        heard += heard_of(post, 0.2)
    said = ray.get(talking, timeout=0.0)

    assert sorted(heard) == sorted([*range(said[0]), *range(said[1])])
    assert [number for at, number in enumerate(heard) if number not in heard[:at]] == list(range(max(said)))
