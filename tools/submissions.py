"""Check of the folder submissions/, as the workflow does: `make submissions`. Its rules are in submissions/README.md."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from aiperf.__main__ import main
from aiperf.errors import BundleRefused
from aiperf.submission.announcement_file import NAME as LOG
from aiperf.submission.archive import ENDING, unpack

FOLDER = Path(__file__).parent.parent / "submissions"
LARGEST = 20_000_000
ELSEWHERE = ".elsewhere"
"""Files of a submission that are too large for the folder, one a line in sha256sum's form with an address for the name."""
OF_FOLDER = ("README.md", "allowed_signers")


def faults(folder: Path) -> Iterator[str]:
    """Yield what the folder must not hold, without a look at signatures and journals."""
    for file in sorted(path for path in folder.rglob("*") if not path.is_dir()):
        name, depth = file.relative_to(folder).as_posix(), len(file.relative_to(folder).parts)
        of_site = depth == 2 and (file.name == LOG or file.name.endswith((ENDING, ELSEWHERE)))
        if file.is_symlink() or not (of_site or name in OF_FOLDER):
            yield f"{name}: a site's folder has {LOG}, NAME{ENDING} and NAME{ELSEWHERE} only. Publish weights elsewhere"
        elif file.stat().st_size > LARGEST:
            yield f"{name}: a file has at most {LARGEST} bytes, but this one has {file.stat().st_size}. Submit fewer runs"
        elif file.name.endswith(ELSEWHERE):
            lines = file.read_text(errors="replace").splitlines()
            if wrong := [line for line in lines if not re.fullmatch(r"[0-9a-f]{64}  https://\S+", line)]:
                yield f"{name}: a line is 'SHA256  https://ADDRESS', but found {wrong[0]!r}. Write it so"
        elif file.name.endswith(ENDING):
            yield from (f"{name}: {fault}" for fault in _of_members(file))


def _of_members(file: Path) -> Iterator[str]:
    names: tuple[str, ...] = ()
    with suppress(BundleRefused), tempfile.TemporaryDirectory() as folder:  # `inspect` reports what is refused
        names = unpack(file, Path(folder)).names
    if recorded := [name for name in names if re.match(r"runs/\d+/(telemetry|power)/", name)]:
        yield f"a submission here has no telemetry, but found {recorded[0]!r}. Repeat `submit` with --no-telemetry"


def check(folder: Path) -> int:
    """Print the faults of the folder and the inspection of its submissions. Return 0 if all is good, else 1."""
    if found := list(faults(folder)):
        print("\n".join(found))
        return 1
    allowed = ["--allowed", str(folder / "allowed_signers")]
    logs, bundles = (sorted(map(str, folder.glob(f"*/*{ending}"))) for ending in (LOG, ENDING))
    statuses = [main(["announce", "--show", "--log", log, *allowed]) for log in logs]
    statuses += [main(["inspect", *bundles, *allowed])] if bundles else []
    print(f"{len(logs)} logs of announcements and {len(bundles)} submissions: {'bad' if any(statuses) else 'good'}")
    return int(any(statuses))


if __name__ == "__main__":
    sys.exit(check(Path(sys.argv[1]) if sys.argv[1:] else FOLDER))
