"""Programs under MPI: with the threads of a rank, ended with this process, with the load of the host."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from aiperf.errors import BadConfiguration
from aiperf.programs import Answer, ProgramFailed, ask, own_messages
from aiperf.scratch import Scratch
from aiperf.system.load import LoadWatch, OwnProcesses

LAUNCH = "mpirun -np {ranks}"
HYBRID = f"{LAUNCH} --map-by slot:PE={{threads}} --bind-to core"
"""OpenMPI binds a rank to one core without this."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
_LONGEST_SHOWN = 500


@dataclass(frozen=True, slots=True)
class Launched:
    """Output of a program that ended with status 0."""

    output: str
    others_share: float
    """Share of the host's processor time that other programs used meanwhile, 0..1."""


def default_ranks() -> int:
    """Return the number of physical cores of this host, or of logical ones if that is unknown. At least 1."""
    return psutil.cpu_count(logical=False) or os.cpu_count() or 1


def launch(
    template: str | None,
    ranks: int,
    threads: int,
    words: Sequence[str],
    seconds: float,
    inputs: dict[str, str],
    result: str | None = None,
) -> Launched:
    """Run a program under MPI in a temporary folder, wait for its end, and return its output.

    `template`: launch command with `{ranks}` and `{threads}`, None for OpenMPI's. `result`: name of a file that the program may
    write instead of the standard output.
    """
    template = template or (LAUNCH if threads == 1 else HYBRID)
    try:
        command = [*shlex.split(template.format(ranks=ranks, threads=threads)), *words]
    except (KeyError, IndexError, ValueError) as error:
        raise BadConfiguration(
            f"--launch is a command with {{ranks}}, but found {template!r}: write {LAUNCH!r}"
        ) from error
    if shutil.which(command[0]) is None:
        raise BadConfiguration(
            f"HPL is started by MPI, but {command[0]!r} is not installed: install it (Debian: apt-get install openmpi-bin), "
            "or give --launch"
        )
    scratch = Scratch()
    try:
        for name, text in inputs.items():
            (scratch.path / name).write_text(text)
        watch = LoadWatch(OwnProcesses({os.getpid()}))
        before = watch.look()
        environment = os.environ | dict.fromkeys(THREADS, str(threads)) | scratch.environment
        ended = ask(command, seconds=seconds, environment=environment, folder=scratch.path)
        after = watch.look()
        if ended.status:
            raise BadConfiguration(_failure(command, ended))
        output = ended.output
        if result is not None and (scratch.path / result).exists():
            output = (scratch.path / result).read_text(errors="replace")
    except ProgramFailed as error:
        raise BadConfiguration(f"{error}, or choose a smaller --n") from error
    finally:
        scratch.close(patience_seconds=0.0)
    passed = after.passed - before.passed
    others = (after.programs - after.own) - (before.programs - before.own)
    return Launched(output, min(1.0, max(0.0, others / passed)) if passed > 0 else 0.0)


def _failure(command: Sequence[str], ended: Answer) -> str:
    messages = " ".join(own_messages(ended.errors + ended.output).split())
    if "allow-run-as-root" in ended.errors:
        return (
            "OpenMPI starts nothing as root without consent, but this user is root: use another user, or, in a container, set "
            "OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
        )
    return (
        f"`{shlex.join(command)}` ended with status {ended.status}: {messages[-_LONGEST_SHOWN:]}. Correct the cause, and "
        "run again"
    )
