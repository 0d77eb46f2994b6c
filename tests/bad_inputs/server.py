"""A process that has imported the command line, and carries each input out in a process of its own.

That is a fork of itself, or another program. `python -m tests.bad_inputs.server` reads a JSON list a line (program or none, its
words, folder, what is set in its environment besides), and answers with one.

It takes in what its children leave behind (PR_SET_CHILD_SUBREAPER, prctl(2)), so a daemon that outlives its command is seen.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import NoReturn

HANGS_AFTER_SECONDS = 20.0
"""Of the command's own time: without that in which it was ready and waited for a processor, which is the machine's."""
AT_MOST_SECONDS = 300.0
_SUBREAPER = 36


def main() -> None:
    """Answers until its standard input is closed."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    _import_what_refusals_need()
    for line in sys.stdin:
        program, words, folder, environment = json.loads(line)
        print(json.dumps(_carried_out(program, words, Path(folder), dict(environment))), flush=True)


def _import_what_refusals_need() -> None:
    from aiperf.cli.arguments import VERBS
    from aiperf.cli.help import main as help_of_all  # noqa: F401
    from aiperf.config import configure

    for verb in VERBS:
        __import__(f"aiperf.cli.verbs.{verb}")
    import aiperf.cli.run
    import aiperf.report.write
    import aiperf.simulate.session  # noqa: F401

    configure([])  # the grammar of Hydra's overrides is learnt by using it
    gc.collect()
    gc.freeze()


def _carried_out(
    program: list[str] | None, words: list[str], folder: Path, environment: dict[str, str]
) -> dict[str, object]:
    said = folder.with_name(f"{folder.name}.said")
    child = os.fork()
    if child == 0:
        _become_the_command(program, words, folder, said, environment)
    status = _waited_for(child)
    processes = _ended_leftovers()
    return {"status": status, "said": said.read_text("utf-8", "replace"), "processes": processes}


def _become_the_command(
    program: list[str] | None, words: list[str], folder: Path, said: Path, environment: dict[str, str]
) -> NoReturn:
    status = 1
    try:
        os.setsid()
        os.chdir(folder)
        os.environ |= {"COLUMNS": "100", "TMPDIR": str(folder.parent), "RAY_TMPDIR": str(folder.parent)} | environment
        nothing, out = os.open(os.devnull, os.O_RDONLY), os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for descriptor, stream in ((nothing, 0), (out, 1), (out, 2)):
            os.dup2(descriptor, stream)
        if program is not None:
            os.execvp(program[0], [*program, *words])
        sys.argv = ["aiperf", *words]
        from aiperf.__main__ import main as command

        status = command()
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else 1
    except BaseException:  # noqa: BLE001  # whatever ends a program with a traceback
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _waited_for(child: int) -> int | None:
    """Its exit status; None where it hung, and was ended."""
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
    """Seconds, of its first thread (proc(5), schedstat)."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def _ended_leftovers() -> list[str]:
    """What outlived the command, by its command line, and is ended here."""
    found: list[str] = []
    grace = time.monotonic() + 2  # what is ending already may end
    while children := _children():
        for pid in children:
            if os.waitpid(pid, os.WNOHANG)[0]:
                continue
            if time.monotonic() > grace:
                found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        time.sleep(0.01)
    return found


def _children() -> list[int]:
    me = os.getpid()
    return [int(pid) for pid in Path(f"/proc/{me}/task/{me}/children").read_text().split()]


if __name__ == "__main__":
    main()
