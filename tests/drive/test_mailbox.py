"""Words come to the driver in the order in which a worker said them."""

from __future__ import annotations

from typing import Any

import ray
from ray.actor import ActorHandle

from aiperf.drive.mailbox import Mailbox, Sender, opened
from aiperf.messages import Done

WORDS = 1500


@ray.remote(num_cpus=1)
class Talker:
    def talk(self, mailbox: ActorHandle[Any], words: int) -> None:
        sender = Sender(mailbox)
        for number in range(words):
            sender.put([Done(trial=number, attempt=1, reason="epochs")])


def test_words_that_follow_each_other_closely_arrive_in_the_order_in_which_they_were_said(own_ray: None) -> None:
    """Sent without waiting, some hundred of these change places."""
    mailbox = Mailbox.remote()  # type: ignore[attr-defined]  # ray.remote's stub gives the class back
    talking = Talker.remote().talk.remote(mailbox, WORDS)  # type: ignore[attr-defined]  # likewise
    heard: list[int] = []
    while len(heard) < WORDS:
        heard += [word.trial for word in opened(ray.get(mailbox.take.remote(5.0))) if isinstance(word, Done)]
    ray.get(talking)

    assert heard == list(range(WORDS))
