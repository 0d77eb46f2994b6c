"""Fixtures and settings of all tests."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from aiperf import progress

# A slow example is no failure, since the machine may do other work. One commit always has the same result: examples are drawn
# from a fixed seed. `pytest --hypothesis-profile=random` draws new ones.
settings.register_profile("aiperf", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None)
settings.load_profile("aiperf")

# Background jobs of a shell without job control ignore Ctrl-C (`make test > log &` in a script), and so do the processes that
# they start. Tests that press Ctrl-C would never end.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Settings in the user's home folder (Ray's token, matplotlib, git, Kubernetes) change no test. Caches and pip's index stay.
_HOME = tempfile.TemporaryDirectory(prefix="aiperf-home-")
for _name, _place in {
    "XDG_CACHE_HOME": ".cache",
    "PIP_CONFIG_FILE": ".config/pip/pip.conf",
    "PYENV_ROOT": ".pyenv",
}.items():
    if (_path := Path.home() / _place).exists():
        os.environ.setdefault(_name, str(_path))
for _name in (
    "XDG_CONFIG_HOME",
    "MPLCONFIGDIR",
    "MATPLOTLIBRC",
    "GIT_CONFIG_GLOBAL",
    "KUBECONFIG",
    "RAY_AUTH_TOKEN_PATH",
):
    os.environ.pop(_name, None)
os.environ["HOME"] = _HOME.name

# As in an environment that is active: printed commands begin with `python`.
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

RENDERED = ("tests/report/", "tests/comparison/test_scaling", "tests/bops/test_roofline")
"""Tests for which matplotlib renders a report's figures. With them a report takes a processor second.
Other tests that write a report (end of a run, submission, comparison) check only its text."""
OF_FAULTS = ("tests/page/test_settings",)
"""Tests of figures that fail."""
UNRENDERED = {
    "svg": '<svg xmlns="http://www.w3.org/2000/svg" width="8pt" height="8pt" viewBox="0 0 8 8"></svg>',
    "png": b"\x89PNG\r\n\x1a\n",
    "pdf": b"%PDF-1.4\n",
}


@pytest.fixture(autouse=True, scope="session")
def _no_progress() -> None:
    """On a loaded machine a short verb takes seconds. Tests compare its standard error."""
    progress.FIRST_SECONDS = 600.0


@pytest.fixture(autouse=True, scope="module")
def _render_figures_only_for_their_tests(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave out the drawing of figures, the last step only.

    The product's own code for figures runs. Other processes draw figures, and so does a test that runs alone and loads
    matplotlib later.
    """
    drawing = sys.modules.get("aiperf.page.figure")
    if drawing is None or request.node.nodeid.startswith(OF_FAULTS):
        yield
        return
    from matplotlib.figure import Figure

    def write(self: object, file: Any, *, format: str, **_: object) -> None:
        file.write(UNRENDERED[format])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "drawn", drawing._drawn)  # a figure that fails fails its test
        if not request.node.nodeid.startswith(RENDERED):
            patch.setattr(Figure, "savefig", write)
        yield


@pytest.fixture(autouse=True, scope="module")
def _every_json_output_follows_its_schema() -> Iterator[None]:
    """Validate what `print_result` prints in this process."""
    from aiperf.cli import output

    with pytest.MonkeyPatch.context() as patch:
        document = output.document

        def checked(schema: str, value: Mapping[str, Any]) -> str:
            from tests.builders.json_output import follows_its_schema

            follows_its_schema(text := document(schema, value))
            return text

        patch.setattr(output, "document", checked)
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
"""Tests that start Ray or ranks. `make test` runs three tests at once, but not two of these, since each uses both cores and
has deadlines of other processes. Tests without other processes fill the other workers' time."""


class OneRealAtATime(LoadScopeScheduling):  # type: ignore[misc]  # without stubs
    """Schedule all tests of real processes on one worker, in order, and other tests file by file on the next free worker.

    The fixtures of a file (a browser, a simulated run, a server) are then made once, not once in each worker. Files with many
    tests go first, so that the last ones are short.

    (Groups by mark, `--dist loadgroup`, are not kept by xdist 3.8 with pytest 9.2: they ran on both workers at once.)
    """

    def _split_scope(self, nodeid: str) -> str:
        return "real processes" if nodeid.startswith(REAL_PROCESSES) else nodeid.partition("::")[0]

    def remove_node(self, node: Any) -> Any:
        """Do not assign the finished files of a crashed worker a second time.

        Without a remaining test their end would not be reported (xdist 3.8).
        """
        done = [scope for scope, tests in self.assigned_work[node].items() if all(tests.values())]
        for scope in done:
            del self.assigned_work[node][scope]
        return super().remove_node(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneRealAtATime:
    return OneRealAtATime(config, log)


@pytest.fixture(scope="session")
def invented_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an invented libnvidia-ml.so.1."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to build the invented NVIDIA driver with")
    folder = tmp_path_factory.mktemp("driver")
    source = Path(__file__).parent / "system/nvml_double.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(folder / "libnvidia-ml.so.1"), str(source)], check=True)
    return folder
