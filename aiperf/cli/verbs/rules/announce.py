"""`python -m aiperf announce`: announce a run before it starts, in a signed and hash-chained log of the site."""

from __future__ import annotations

import argparse
import re
import shlex
import time
from typing import TYPE_CHECKING

import msgspec

from aiperf.cli.arguments import add_allowed, add_json
from aiperf.cli.output import print_parts, print_result, program
from aiperf.files import given_path
from aiperf.page.section import Items, Paragraph, Part, rows

if TYPE_CHECKING:
    from aiperf.config import RunConf
    from aiperf.submission.announcements import Announcements, SignedEntry

DESCRIPTION = """Announces a run in the site's log before it starts: configuration and time, signed with an Ed25519 key.
First it makes the plan, prints the rules of the division that the run would break, and refuses a run that
cannot start. The holder of another key gives a nonce, from which the seed follows. Then start the run with
the printed command. It runs once, and only as announced. The inspection of a submission counts announced
runs that were never published."""
EXAMPLES = (
    "system.site=A system.name=alpha --key site-a --log site/ --nonce-by SHA256:…",
    "--nonce ID --key site-b --log site/",
    "--show --log site/ --allowed allowed_signers",
    "--withdraw ID --why 'node 7 burnt' --key site-a --log site/",
)
OPTIONS = "[OPTION=VALUE …]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--log", required=True, metavar="FILE", help="log of the site, or a folder that has or receives one (FOLDER/)"
    )
    parser.add_argument(
        "--key",
        type=given_path,
        metavar="KEY",
        help="file of an Ed25519 private key, or the .pub file of a key in ssh-agent",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--nonce-by",
        metavar="SHA256:…",
        help="announce a run. Fingerprint of the key of another site, which will give the nonce (ssh-keygen -lf KEY.pub)",
    )
    what.add_argument("--nonce", metavar="ID", help="give the nonce of another site's announcement, once, by --key")
    what.add_argument("--show", action="store_true", help="check the log and print its entries; nothing is added")
    what.add_argument("--withdraw", metavar="ID", help="withdraw an announced run; needs --why")
    parser.add_argument("--why", metavar="TEXT", help="reason of the withdrawal")
    add_allowed(parser, "with --show: names the owners of keys")
    add_json(parser)


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.errors import BadConfiguration, conflict

    if (arguments.withdraw is None) != (arguments.why is None):
        raise BadConfiguration("--withdraw ID and --why TEXT need each other. Give both")
    if options and arguments.nonce_by is None:
        raise conflict(shlex.join(options), "--show, --withdraw or --nonce")
    if arguments.show:
        return _show(arguments)
    if arguments.key is None:
        raise BadConfiguration("every entry of a log is signed: add --key KEY (create one: ssh-keygen -t ed25519)")
    if arguments.nonce_by and re.fullmatch("SHA256:[A-Za-z0-9+/]{43}", arguments.nonce_by) is None:
        raise BadConfiguration(
            f"--nonce-by is the fingerprint of a key, SHA256:…, but found {arguments.nonce_by!r}. "
            "ssh-keygen -lf THEIR_KEY.pub prints it"
        )
    return _add(arguments, options)


def _add(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.cli.site import words_with_site
    from aiperf.config import configure
    from aiperf.planning.plan import check_options
    from aiperf.submission.announced_run import announcement
    from aiperf.submission.announcement_file import add, log_path, make_folder
    from aiperf.submission.announcements import AnyEntry, NonceSigned, RunWithdrawn
    from aiperf.submission.signatures import sign

    path = log_path(arguments.log)
    options = options if arguments.nonce_by is None else words_with_site(options)
    conf = None if arguments.nonce_by is None else configure(options)
    broken: dict[str, list[str]] = {}
    if conf is not None:
        check_options(conf)
        plan, broken["broken_rules"] = _planned(conf, options)
        if not arguments.json:
            print_parts((*plan, Items(tuple(broken["broken_rules"]))))

    def entry(log: Announcements) -> AnyEntry:
        now = time.time()
        if conf is not None:
            return announcement(conf, log, now, arguments.nonce_by)
        if arguments.nonce:
            nonce = sign(arguments.key, arguments.nonce.encode())
            return log.following(NonceSigned, now, announcement=arguments.nonce, nonce=nonce)
        return log.following(RunWithdrawn, now, announcement=arguments.withdraw, reason=arguments.why)

    make_folder(arguments.log)
    signed, torn = add(path, arguments.key, entry)
    moved = f"an incomplete last line (its writer was killed) was moved to '{torn}'; its id was never printed"
    lines = [
        (str(signed.entry.__struct_config__.tag), signed.id),
        ("log", f"{path}, entry {signed.entry.number}, signed by {signed.key}"),
    ]
    if conf is not None:
        words = [*options, f"announcement={signed.id}", f"announcement_log={path}"]
        nonce = f"{program()} announce --nonce {signed.id} --key THEIR_KEY --log {shlex.quote(str(path))}"
        lines += [("nonce by", nonce), ("start it", f"{program()} {shlex.join(words)}")]
    parts = (None if torn is None else Paragraph(moved), rows("entry", "", ("", ""), lines))
    print_result("aiperf-announcement", _as_json(signed) | broken, parts, arguments, width=0)
    return 0


def _planned(conf: RunConf, options: list[str]) -> tuple[tuple[Part, ...], list[str]]:
    """Return the plan of the run, and the rules that it would break whatever its result is. Refuse a run that cannot start."""
    from aiperf.accounting.valid_flops import target_of
    from aiperf.cli.run import planned
    from aiperf.config import as_plain
    from aiperf.leaderboard.leaderboard import NOT_ANNOUNCED
    from aiperf.report.phrases import rule_lines
    from aiperf.submission.announced_run import foreseen

    table, plan = planned(conf, options)
    if target_of(as_plain(conf)) is not None:
        named = conf.system.site and conf.system.name
        lines = (table, Paragraph("division    none: a fixed network has levels, which `check RUN` prints"))
        return lines, [] if named else [NOT_ANNOUNCED]
    if plan is None:
        return (table, Paragraph("division    not checked: the data set is not visible from this machine")), []
    division, broken = foreseen(plan)
    text = "breaks none of its rules that are known before the run" if not broken else "BREAKS these of its rules"
    return (table, Paragraph(f"division    {division.name}: the run {text}")), rule_lines(broken)


def _show(arguments: argparse.Namespace) -> int:
    from aiperf.submission.announcement_file import log_path, read_log
    from aiperf.submission.announcements import RunBegun, signers_of

    log = read_log(log_path(arguments.log))
    signers = None if arguments.allowed is None else signers_of(log, arguments.allowed)
    listed = [(each, None if signers is None else signers.get(each.id)) for each in log.entries]
    is_known = all(owners != () for _, owners in listed)
    entries = [_as_json(each) | {"signers": owners} for each, owners in listed]
    withdrawn, cells = log.withdrawn(), []
    for each, owners in listed:
        who = each.key or "unsigned" if owners is None else ", ".join(owners) or f"UNKNOWN KEY {each.key}"
        if isinstance(each.entry, RunBegun):
            who = f"run {each.entry.run!r} of {each.entry.announcement[:12]}…"
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(each.entry.at_unix))
        withdrawal = f"  withdrawn: {withdrawn[each.id].reason}" if each.id in withdrawn else ""
        cells.append(
            (str(each.entry.number), stamp, str(each.entry.__struct_config__.tag), each.id, f"{who}{withdrawal}")
        )
    shown = {"head": log.head, "torn_bytes": len(log.torn), "entries": entries}
    parts = (
        rows("entries", "", (">", "", "", "", ""), cells),
        Paragraph(f"chain and signatures of {len(log.entries)} entries are valid; head {log.head}"),
        Paragraph(f"the last line is incomplete ({len(log.torn)} bytes)") if log.torn else None,
    )
    print_result("aiperf-announcements", shown, parts, arguments)
    return 0 if is_known else 1


def _as_json(signed: SignedEntry) -> dict[str, object]:
    entry = {name: value for name, value in msgspec.to_builtins(signed.entry).items() if name != "config"}
    return {"id": signed.id, "fingerprint": signed.key, **entry}
