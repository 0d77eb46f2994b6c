"""A Ray of one machine alone, without the daemons that serve others: dashboard, autoscaler, log monitor, the agent's servers.

Nobody looks at the dashboard of a run's own Ray, nothing scales it, and what its processes print stays in their files. Ray
starts all of these nevertheless, one after the other, and waits for some of them: half of the time in which it comes up. Where
Ray's dashboard packages are not installed its agent serves nothing and loads little; here it does as it does there. (Ray 2.60)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any


@contextmanager
def fewer_daemons(*, has_endpoint: bool) -> Iterator[None]:
    """Holds for a Ray that is brought up in the context. `has_endpoint`: the agent is to serve metrics, and is started whole.

    A release of Ray that starts them in another way starts them all: the run is the same, and begins later.
    """
    from ray._private import node, services, utils

    with ExitStack() as stack:

        def replaced(owner: Any, name: str, answer: Any) -> None:
            if (before := getattr(owner, name, None)) is not None:
                setattr(owner, name, lambda *_, **__: answer)
                stack.callback(setattr, owner, name, before)

        replaced(services, "start_api_server", (None, None))  # neither address nor process
        replaced(node.Node, "start_monitor", None)
        replaced(node.Node, "start_log_monitor", None)
        if not has_endpoint:
            replaced(utils, "get_dashboard_dependency_error", ImportError("a run's own Ray has no dashboard"))
        yield
