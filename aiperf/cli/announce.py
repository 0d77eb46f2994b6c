"""`python -m aiperf announce`: a run is told of before it starts, in a log of the site that is signed and hash-chained."""

from __future__ import annotations

import argparse
import json
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

from aiperf.cli.program import program
from aiperf.plain import plain

if TYPE_CHECKING:
    from aiperf.submission.announcements import Announcements, Signed

DESCRIPTION = """Adds a run that is to be to a site's log of announcements: its whole configuration, seed and time, signed
with an Ed25519 key. The run is then started with announcement=ID announcement_log=FILE, once, and only as
announced; runs that were announced and never published are counted by whoever inspects submissions."""
EXAMPLES = (
    "schedule=ranking dataset=imagenet --key ~/.ssh/id_ed25519 --log site/",
    "--show --log site/ --allowed allowed_signers",
    "--withdraw ID --why 'node 7 burnt' --key ~/.ssh/id_ed25519 --log site/",
    "--witness --key ~/.ssh/id_ed25519 --log site/",
)
OPTIONS = "[OPTION=VALUE …]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which log, which key, and what is added."""
    parser.add_argument(
        "--log", required=True, type=Path, metavar="FILE", help="the site's log, or the folder that has or gets one"
    )
    parser.add_argument(
        "--key",
        type=Path,
        metavar="KEY",
        help="an Ed25519 private key's file; or the .pub of a key that ssh-agent holds",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--show", action="store_true", help="check the log and print what it holds; nothing is added")
    what.add_argument("--withdraw", metavar="ID", help="an announced run will not be; needs --why")
    what.add_argument(
        "--witness", action="store_true", help="sign the log's last entry with the key of somebody who saw it now"
    )
    parser.add_argument("--why", metavar="TEXT", help="why a run is withdrawn")
    parser.add_argument(
        "--allowed",
        type=Path,
        metavar="FILE",
        help="with --show: whose key is whose, an allowed_signers file of OpenSSH",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def carry_out(arguments: argparse.Namespace, options: list[str]) -> int:
    """Adds an entry, or shows all; gives the exit status."""
    from aiperf.errors import BadConfiguration

    if (arguments.withdraw is None) != (arguments.why is None):
        raise BadConfiguration("--withdraw ID and --why TEXT go together")
    if options and (arguments.show or arguments.withdraw or arguments.witness):
        raise BadConfiguration(
            f"options are those of a run that is announced; leave {shlex.join(options)} out, or the flag"
        )
    if arguments.show:
        return _show(arguments)
    if arguments.key is None:
        raise BadConfiguration("what is added to a log is signed: --key KEY (ssh-keygen -t ed25519 makes one)")
    return _add(arguments, options)


def _add(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.config import configure
    from aiperf.submission.announced_run import announcement
    from aiperf.submission.announcement_file import add, log_path
    from aiperf.submission.announcements import AnyEntry, HeadWitnessed, RunWithdrawn
    from aiperf.submission.signer import signer_of

    path = log_path(arguments.log)
    signer = signer_of(arguments.key)
    conf = None if arguments.withdraw or arguments.witness else configure(options)

    def entry(log: Announcements) -> AnyEntry:
        now, number = time.time(), len(log.entries) + 1
        if conf is not None:
            return announcement(conf, log, now)
        if arguments.witness:
            return HeadWitnessed(number=number, previous=log.head, at_unix=now)
        return RunWithdrawn(
            number=number, previous=log.head, at_unix=now, announcement=arguments.withdraw, reason=arguments.why
        )

    signed, torn = add(path, signer, entry)
    if arguments.json:
        print(json.dumps(_as_json(signed), indent=2))
        return 0
    if torn is not None:
        print(f"a torn last line (a writer killed while it wrote) was set aside in '{torn}'; nobody was told of its id")
    print(f"{signed.entry.__struct_config__.tag}  {signed.id}")
    print(f"log        {path}, entry {signed.entry.number}, signed by {signed.key.fingerprint}")
    if conf is not None:
        words = [*options, f"announcement={signed.id}", f"announcement_log={path}"]
        print(f"start it   {program()} {shlex.join(words)}")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from aiperf.submission.allowed import principals_of, read_allowed
    from aiperf.submission.announcement_file import log_path, read_log

    log = read_log(log_path(arguments.log))
    signers = None if arguments.allowed is None else read_allowed(arguments.allowed)
    known = True
    rows: list[tuple[Signed, tuple[str, ...] | None]] = []
    for each in log.entries:
        by = None if signers is None else principals_of(signers, each.key, each.entry.at_unix)
        known = known and by != ()
        rows.append((each, by))
    if arguments.json:
        entries = [_as_json(each) | {"signers": by} for each, by in rows]
        print(json.dumps({"head": log.head, "torn_bytes": len(log.torn), "entries": entries}, indent=2))
        return 0 if known else 1
    withdrawn = log.withdrawn()
    for each, by in rows:
        who = each.key.fingerprint if by is None else ", ".join(by) or f"UNKNOWN KEY {each.key.fingerprint}"
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(each.entry.at_unix))
        gone = f"  withdrawn: {withdrawn[each.id]}" if each.id in withdrawn else ""
        print(plain(f"{each.entry.number:>4}  {stamp}  {each.entry.__struct_config__.tag:<9}  {each.id}  {who}{gone}"))
    print(f"chain and signatures of {len(log.entries)} entries are good; head {log.head}")
    if log.torn:
        print(f"after them stand {len(log.torn)} bytes of a line that was never finished")
    return 0 if known else 1


def _as_json(signed: Signed) -> dict[str, object]:
    entry = signed.entry
    told: dict[str, object] = {
        "id": signed.id,
        "key": signed.key.line,
        "fingerprint": signed.key.fingerprint,
        "entry": entry.__struct_config__.tag,
    }
    return told | {name: getattr(entry, name) for name in entry.__struct_fields__ if name != "config"}
