"""Process that has imported the command line and executes each input in a new process.

The new process is a fork of this one, or another program. `python -m tests.bad_inputs.server` reads one JSON list per line
(program or null, words, folder, additional environment) and prints one JSON object for each.

Orphans of its children become its children (PR_SET_CHILD_SUBREAPER, prctl(2)), so that it sees processes that a command left.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import NoReturn

HANGS_AFTER_SECONDS = 20.0
"""Time limit of a command, without the time in which it waited for a processor."""
AT_MOST_SECONDS = 300.0
MOST_MEMORY = 2 << 30
"""Limit of private memory in bytes. Torch with its threads reserves about 1 GiB."""
_SUBREAPER = 36


def main() -> None:
    """Answer until the standard input is closed."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    _import_command_line()
    for line in sys.stdin:
        program, words, folder, environment = json.loads(line)
        print(json.dumps(_execute(program, words, Path(folder), dict(environment))), flush=True)


def _import_command_line() -> None:
    from aiperf.cli.arguments import VERB_MODULES
    from aiperf.cli.help import main as help_of_all  # noqa: F401
    from aiperf.config import configure

    for module in VERB_MODULES.values():
        __import__(module)
    import aiperf.cli.run
    import aiperf.report.write
    import aiperf.simulate.session  # noqa: F401

    configure([])  # loads the grammar of Hydra's overrides
    gc.collect()
    gc.freeze()


def _execute(
    program: list[str] | None, words: list[str], folder: Path, environment: dict[str, str]
) -> dict[str, object]:
    output = folder.with_name(f"{folder.name}.output")
    child = os.fork()
    if child == 0:
        _become_the_command(program, words, folder, output, environment)
    status = _wait_for(child)
    processes = _end_orphans()
    return {"status": status, "output": output.read_text("utf-8", "replace"), "processes": processes}


def _become_the_command(
    program: list[str] | None, words: list[str], folder: Path, output: Path, environment: dict[str, str]
) -> NoReturn:
    status = 1
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
        os.chdir(folder)
        os.environ |= {"COLUMNS": "100", "TMPDIR": str(folder.parent), "RAY_TMPDIR": str(folder.parent)} | environment
        empty, out = os.open(os.devnull, os.O_RDONLY), os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for descriptor, stream in ((empty, 0), (out, 1), (out, 2)):
            os.dup2(descriptor, stream)
        if program is not None:
            os.execvp(program[0], [*program, *words])
        sys.argv = ["aiperf", *words]
        from aiperf.__main__ import main as command

        status = command()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001  # any error of the program
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait_for(child: int) -> int | None:
    """Return the exit status of a child. None if it hung and was killed."""
    began = time.monotonic()
    while True:
        pid, code = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(code)
        passed = time.monotonic() - began
        if passed > AT_MOST_SECONDS or passed - _waited_for_a_processor(child) > HANGS_AFTER_SECONDS:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.005)


def _waited_for_a_processor(pid: int) -> float:
    """Return the seconds in which the first thread waited for a processor (proc(5), schedstat)."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def _end_orphans() -> list[str]:
    """Kill the processes that the command left, and return their command lines."""
    commands: list[str] = []
    grace = time.monotonic() + 2  # for processes that are ending
    while children := _children():
        for pid in children:
            if os.waitpid(pid, os.WNOHANG)[0]:
                continue
            if time.monotonic() > grace:
                commands.append(
                    Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                )
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        time.sleep(0.01)
    return commands


def _children() -> list[int]:
    me = os.getpid()
    return [int(pid) for pid in Path(f"/proc/{me}/task/{me}/children").read_text().split()]


if __name__ == "__main__":
    main()
