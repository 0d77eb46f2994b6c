"""Messages reach the driver once, in the order of their worker."""

from __future__ import annotations

from typing import Any

import pytest
import ray
from ray.actor import ActorHandle
from ray.exceptions import RayActorError

from aiperf.drive.ray.mailbox import Sender, open_mailbox, received
from aiperf.journal.messages import TrialDone

WORDS = 1500


@ray.remote(num_cpus=1)
class Talker:
    def talk(self, mailbox: ActorHandle[Any], words: int) -> None:
        sender = Sender(mailbox)
        for number in range(words):
            sender.put([TrialDone(trial=number, attempt=1, reason="epochs")])
        sender.flush()


def test_messages_in_quick_succession_arrive_in_order(own_ray: None) -> None:
    """Sent without waiting, some hundred of these change places."""
    mailbox = open_mailbox()
    talking = Talker.remote().talk.remote(mailbox, WORDS)  # type: ignore[attr-defined]
    heard: list[int] = []
    while len(heard) < WORDS:
        heard += [word.trial for word in received(mailbox, 5.0) if isinstance(word, TrialDone)]
    ray.get(talking)

    assert heard == list(range(WORDS))
    assert received(mailbox, 0.0) == []


def test_the_end_of_a_mailbox_is_an_error(own_ray: None) -> None:
    mailbox = open_mailbox()
    ray.kill(mailbox)

    with pytest.raises(RayActorError):
        received(mailbox, 0.1)
