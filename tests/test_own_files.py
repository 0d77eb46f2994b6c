"""Links, FIFOs, sockets, and files and folders of another user, planted where AIPerf opens, creates or removes something."""

from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from aiperf.drive.ray.cluster.head import read_head
from aiperf.own_files import (
    PROGRAM,
    RUN,
    SECRET,
    NotOwn,
    append_own,
    make_own_folder,
    open_own,
    own_folder,
    read_own,
)
from aiperf.scratch import MARK, OWNER, Scratch
from tests.rigs.executors import EXECUTORS, TINY
from tests.rigs.processes import comes_true
from tests.rigs.ray_cluster import GAVE_UP, patiently

REPOSITORY = Path(__file__).parent.parent
STRANGER = 65534
PATIENCE_SECONDS = 600.0

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as a second user")

KINDS = ("link to a file", "link to a folder", "dangling link", "FIFO", "socket", "folder", "file", "open file")


def plant(kind: str, path: Path, victim: Path) -> None:
    """Make something of this user at `path`. Links lead to the folder `victim`."""
    match kind:
        case "link to a file":
            path.symlink_to(victim / "thesis.txt")
        case "link to a folder":
            path.symlink_to(victim)
        case "dangling link":
            path.symlink_to(victim / "not-there")
        case "FIFO":
            os.mkfifo(path, 0o666)
        case "socket":
            with socket.socket(socket.AF_UNIX) as planted:
                planted.bind(str(path))
        case "folder":
            path.mkdir(0o777)
        case "file" | "open file":
            with path.open("x") as file:
                file.write("planted")
            path.chmod(0o600 if kind == "file" else 0o666)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder in which every user can write. Pytest's own folders are closed to other users."""
    with tempfile.TemporaryDirectory(prefix="planted-") as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.fixture
def victim(place: Path) -> Path:
    folder = place / "victim"
    folder.mkdir(0o755)
    for name in ("thesis.txt", "images-of-mine", "trial-0.epoch-1.safetensors", "run.log"):
        (folder / name).write_text("irreplaceable")
    (folder / OWNER).write_text(socket.gethostname())
    return folder


def state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    return {path.name: (path.stat().st_mode, path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}


OPENINGS: dict[str, Callable[[Path], object]] = {
    "secret": read_own,
    "program": lambda path: os.close(open_own(path, os.O_RDONLY, PROGRAM)),
    "created": lambda path: os.close(open_own(path, os.O_RDWR | os.O_CREAT, SECRET)),
    "appended": lambda path: append_own(path).close(),
    "head of a run": read_head,
}


@as_root
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("opening", OPENINGS)
def test_a_planted_file_is_refused_at_once_and_unchanged(opening: str, kind: str, tmp_path: Path, victim: Path) -> None:
    path, before = tmp_path / "file", state(victim)
    plant(kind, path, victim)
    os.chown(path, STRANGER, STRANGER, follow_symlinks=False)

    with pytest.raises(NotOwn, match=r"must be a regular file of user 0.* has owner 65534 and mode 1?[0-7]+\."):
        OPENINGS[opening](path)

    assert state(victim) == before
    assert not path.is_file() or kind.startswith("link") or path.read_text() == "planted"


@as_root
@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_folder_is_refused_and_its_target_unchanged(kind: str, tmp_path: Path, victim: Path) -> None:
    path, before = tmp_path / "folder", state(victim)
    plant(kind, path, victim)
    os.chown(path, STRANGER, STRANGER, follow_symlinks=False)

    for forbidden in (SECRET, PROGRAM, RUN):
        with pytest.raises(NotOwn, match="must be a directory of user 0"), own_folder(path, forbidden):
            pass
    with pytest.raises(NotOwn, match="must be a directory of user 0"):
        make_own_folder(path)

    assert state(victim) == before


def test_own_files_have_the_permissions_that_were_asked_for(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        os.close(open_own(tmp_path / "secret", os.O_WRONLY | os.O_CREAT))
        append_own(tmp_path / "log").close()
    finally:
        os.umask(before)

    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("secret", "log")] == [0o600, 0o666]
    assert read_own(tmp_path / "secret") == b""
    with pytest.raises(NotOwn, match=r"without the permissions 077.*mode 100666"):
        read_own(tmp_path / "log")


@as_root
def test_a_run_folder_may_belong_to_one_other_user(tmp_path: Path) -> None:
    """File servers give root's files to another user."""
    log = tmp_path / "logs" / "log"
    make_own_folder(log.parent)
    append_own(log).close()
    for path in (log, log.parent, tmp_path):
        os.chown(path, STRANGER, STRANGER)

    make_own_folder(log.parent)
    append_own(log).close()
    with pytest.raises(NotOwn):
        open_own(log, forbidden=PROGRAM)


def test_removal_of_old_folders_follows_no_link(place: Path, victim: Path) -> None:
    before = state(victim)
    (place / "aiperf-dir").symlink_to(victim)
    (place / "aiperf-1").mkdir(0o700)
    (place / "aiperf-1" / OWNER).symlink_to(victim / OWNER)
    (place / "aiperf-2").mkdir(0o700)
    (place / "aiperf-2" / OWNER).touch(0o600)
    (place / "aiperf-2" / OWNER).write_text(socket.gethostname())
    (place / "aiperf-2" / "link").symlink_to(victim)
    (place / "aiperf-3").mkdir(0o700)
    os.mkfifo(place / "aiperf-3" / OWNER)

    Scratch(place).close()

    assert sorted(path.name for path in place.glob("aiperf-*")) == ["aiperf-1", "aiperf-3", "aiperf-dir"]
    assert state(victim) == before


_STRANGER = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.test_own_files import KINDS, plant
os.setgroups([]); os.setgid(65534); os.setuid(65534)
place, victim, after = Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
names = sys.argv[5:]
print("ready", flush=True)
while True:
    folders = [folder.path for folder in os.scandir(place / "runs") if folder.is_dir(follow_symlinks=False)]
    for number, name in enumerate(names, after):
        for folder in folders:
            try:
                plant(KINDS[number % len(KINDS)], Path(folder, name), victim)
                print("planted", folder, name, flush=True)
            except OSError:
                pass
    time.sleep(0.05)
"""


FOLDERS = ("logs", "telemetry", "checkpoints", "ceilings", "plots", "ray-head.json", "driver-was-here")
FILES = ("logs/worker-0-rank-0.log", "telemetry/0.jsonl.gz", "checkpoints/kept.json", "plots/search.svg", "report.html")
_RUN_WITHOUT_UMASK = "import os, runpy; os.umask(0); runpy.run_module('aiperf', run_name='__main__')"


@contextmanager
def stranger(place: Path, victim: Path, after: int, names: Sequence[str]) -> Iterator[Callable[[], str]]:
    """A second user who plants something in every run's folder. Yield a function that ends the attack and lists it.

    `after`: selects what is planted where.
    """
    command = [sys.executable, "-c", _STRANGER, str(REPOSITORY), str(place), str(victim), str(after), *names]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"

        def end() -> str:
            process.kill()
            return process.stdout.read() if process.stdout is not None else ""

        try:
            yield end
        finally:
            process.kill()


@as_root
@pytest.mark.slow
@pytest.mark.parametrize(
    ("executor", "names", "after"),
    [
        pytest.param("inline", FOLDERS, 0, id="inline, folders"),
        pytest.param("inline", FILES, 1, id="inline, files"),
        pytest.param("ray", FOLDERS, 1, id="ray, folders"),
        pytest.param("ray", FILES, 0, id="ray, files"),
        pytest.param("ray", FILES, 3, id="ray, files again"),
    ],
)
def test_a_run_among_planted_files_ends_or_is_refused_in_words(
    executor: str,
    names: tuple[str, ...],
    after: int,
    place: Path,
    victim: Path,
) -> None:
    before = state(victim)
    (place / "runs").mkdir()
    (place / "runs").chmod(0o777)
    now = time.time()
    for second in range(60):
        planted = place / "runs" / f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now + second))}-synthetic"
        plant(KINDS[second % len(KINDS)], planted, victim)
        os.chown(planted, STRANGER, STRANGER, follow_symlinks=False)
    shared = Path(f"/dev/shm/aiperf-{os.geteuid()}-{os.getpid()}")
    for path in (place / "aiperf-planted", place / "torchinductor_root", shared):
        path.symlink_to(victim)
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
    words = [*TINY, *EXECUTORS[executor], f"runs={place / 'runs'}", "limits.trials=2", "schedule.epochs=[1]"]
    words += ["schedule.warmup_seconds=0.1"]
    environment = {name: value for name, value in os.environ.items() if name != MARK}
    environment |= {"TMPDIR": str(place), "RAY_TMPDIR": "/tmp"}

    def run() -> tuple[int, str]:
        ended = subprocess.run(
            [sys.executable, "-c", _RUN_WITHOUT_UMASK, *words],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        said = ended.stdout + ended.stderr
        if GAVE_UP in said:
            raise RuntimeError(said)
        return ended.returncode, said

    try:
        with stranger(place, victim, after, names) as end_attack:
            status, said = patiently(run)
            attacks = end_attack()
    finally:
        shared.unlink()

    assert "planted" in attacks, "the attack came too late"
    assert "Traceback" not in said and status in (0, 1, 2), said
    assert status < 2 or re.search(rf"^aiperf: .*{place}.*(must be a|could not be written)", said, re.MULTILINE), said
    assert state(victim) == before
    assert comes_true(lambda: not [path for path in place.glob("aiperf-*") if not path.is_symlink()])
