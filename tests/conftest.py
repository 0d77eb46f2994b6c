"""Fixtures and settings of all tests."""

import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

# How long an example takes says nothing on a machine that does other work too: a slow one is no failure.
settings.register_profile("aiperf", deadline=None)
settings.load_profile("aiperf")

# A shell without job control has its jobs in the background ignore Ctrl-C (`make test > log &` in a script), and the benchmark
# goes on ignoring what it was begun to ignore: tests that press Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

FIGURES_ARE_LOOKED_AT = ("tests/report/", "tests/comparison/test_repeats_plot")
"""Tests for which matplotlib renders a report's figures. A report takes a second of a processor with them, and hardly any
without; whatever else writes one (a run that ends, a submission, a comparison) looks at its words."""
UNRENDERED = {
    "svg": '<svg xmlns="http://www.w3.org/2000/svg" width="8pt" height="8pt" viewBox="0 0 8 8"></svg>',
    "png": b"\x89PNG\r\n\x1a\n",
    "pdf": b"%PDF-1.4\n",
}


@pytest.fixture(autouse=True, scope="module")
def _figures_are_rendered_where_they_are_looked_at(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave out the drawing of figures, the last step only.

    Our own code for figures runs. Processes of their own draw them, and so does a test that is run alone and loads
    matplotlib later.
    """
    drawing = sys.modules.get("aiperf.report.plots.figure")
    if drawing is None or request.node.nodeid.startswith(FIGURES_ARE_LOOKED_AT):
        yield
        return

    def write(self: object, file: Any, *, format: str, **_: object) -> None:
        file.write(UNRENDERED[format])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "Figure", type("Unrendered", (drawing.Figure,), {"savefig": write}))
        yield


REAL_PROCESSES = (
    "tests/cluster/test_elastic",
    "tests/cluster/test_existing_ray",
    "tests/cluster/test_image",
    "tests/cluster/test_hosts_real",
    "tests/cluster/test_slurm_real",
    "tests/cluster/test_preflight_real",
    "tests/cluster/test_hosts_rig",
    "tests/cluster/test_deaths_over_hosts",
    "tests/drive/",
    "tests/train/ranks/",
    "tests/train/collectives/",
    "tests/train/test_full_disk",
)
"""Tests that start Ray or ranks. `make test` runs two tests at once, but not two of these: each takes both cores and has other
processes' deadlines to keep. What works in the test's own process is none of them: it fills the other worker's time."""


class OneRealAtATime(LoadScopeScheduling):  # type: ignore[misc]  # without stubs
    """All tests of real processes go to one worker, in their order; the others go file by file to whichever is free.

    A file's fixtures (a browser, a run that was simulated, a server) are so made once, not once in each worker. Files of many
    tests go first, so that the last that are given out are short.

    (Groups by mark, `--dist loadgroup`, are not kept by xdist 3.8 with pytest 9.2: they ran on both workers at once.)
    """

    def _split_scope(self, nodeid: str) -> str:
        return "real processes" if nodeid.startswith(REAL_PROCESSES) else nodeid.partition("::")[0]

    def remove_node(self, node: Any) -> Any:
        """Do not assign the finished files of a crashed worker again.

        With nothing left to run, nobody would report their end (xdist 3.8).
        """
        done = [scope for scope, tests in self.assigned_work[node].items() if all(tests.values())]
        for scope in done:
            del self.assigned_work[node][scope]
        return super().remove_node(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneRealAtATime:
    return OneRealAtATime(config, log)
