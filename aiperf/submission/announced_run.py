"""Comparison of a run with its announcement, a signed entry of its options in the site's log before the run."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec

from aiperf.config import RunConf, as_plain
from aiperf.errors import BadConfiguration, NotAsAnnounced
from aiperf.files import host_name
from aiperf.journal.events import RunStarted
from aiperf.journal.first_line import config_hash
from aiperf.journal.options import OF_ONE_RUN, option_differences, without
from aiperf.planning.plan import Plan, check_options, first_event
from aiperf.ranking.breaches import RuleViolation, judgements
from aiperf.ranking.division import BUILT_IN, Division, division
from aiperf.report.candidate import candidate_of
from aiperf.submission.announcement_file import add, log_path, read_log
from aiperf.submission.announcements import Announcements, RunAnnounced, RunBegun, SignedEntry, Signers
from aiperf.system.describe import versions
from cluster.place import Simulated, place_of
from searchers.propose import RULES

NOT_ANNOUNCED = OF_ONE_RUN - {"name"}
"""Parts of a configuration that an announcement does not hold. It holds the run's name, and the seed follows from its id."""
SHOWN = 8
CLOCK_SECONDS = 1.0
"""Tolerated difference of two hosts' clocks when the start of a run is compared with its announcement."""


def announced_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options in `config` that an announcement contains, by name."""
    return without(config, NOT_ANNOUNCED)


def announcement(conf: RunConf, log: Announcements, now_unix: float, nonce_by: str) -> RunAnnounced:
    """Return the next entry for a log of announcements, not yet signed and not yet written: a future run with options `conf`.

    `log`: present content of the log. `now_unix`: time of the entry in seconds since 1970. `nonce_by`: fingerprint (SHA256:…)
    of the key of another principal, who will sign the nonce.

    Raises:
        BadConfiguration: no run can begin with these options, or they contain the seed, another announcement, resume=,
            dry_run= or cluster.profile.
    """
    check_options(conf)
    given = [name for name in ("announcement", "announcement_log", "resume") if getattr(conf, name) is not None]
    if given or conf.dry_run:
        raise BadConfiguration(f"an announcement is for a new run. Leave {', '.join(given) or 'dry_run'} out")
    if getattr(conf.cluster, "profile", None) is not None:
        raise BadConfiguration(
            "an announced configuration is complete, but cluster.profile reads another run at the start: leave it out"
        )
    if conf.seed:
        raise BadConfiguration(
            f"the seed of an announced run follows from its nonce. Leave seed={conf.seed} out, and start the run by the "
            "command that `announce` prints"
        )
    config = announced_config(json.loads(json.dumps(as_plain(conf))))
    return log.following(
        RunAnnounced,
        now_unix,
        config=config,
        config_hash=config_hash(config),
        proposal_rules=RULES,
        release=versions().get("aiperf-cluster", "unknown"),
        nonce_by=nonce_by,
    )


def foreseen(plan: Plan) -> tuple[Division, list[RuleViolation]]:
    """Return the nearest division of a planned run, and the rules that it would break whatever its result is."""
    # results of a simulated run are not looked at
    run = candidate_of([msgspec.structs.replace(first_event(plan, "planned", 0.0), simulated=True)])
    to_come = {"seed_source", "is_simulated"}
    if isinstance(place_of(plan.conf.cluster, os.environ), Simulated):
        to_come.remove("is_simulated")
    is_unprepared = run.images.get("fingerprint") is not None and run.images.get("contents") is None

    def broken(of: Division) -> list[RuleViolation]:
        outcomes = (each for each in judgements(run, of) if each.rule.fact not in to_come)
        return [
            each.breach
            for each in outcomes
            if each.breach is not None
            and (is_unprepared if each.rule.fact == "contents" else not each.breach.is_unknown)
        ]

    names = [name for name in BUILT_IN if (name == "reference") == (plan.follows is not None)]
    return min(((each, broken(each)) for each in map(division, names)), key=lambda each: len(each[1]))


def breaks(
    log: Announcements, announced: SignedEntry, config: Mapping[str, Any], rules: int, started_unix: float | None
) -> list[str]:
    entry = announced.entry
    assert isinstance(entry, RunAnnounced)
    differences = [
        f"{each.name} is {each.second!r}, and {each.first!r} was announced"
        for each in option_differences(entry.config, announced_config(config))
    ]
    if (seed := log.seed(announced)) is not None and config.get("seed") != seed:
        differences.append(f"seed is {config.get('seed')!r}, and seed {seed} follows from the announcement")
    if rules != entry.proposal_rules:
        differences.append(f"its proposals follow rules {rules}, and rules {entry.proposal_rules} were announced")
    if started_unix is not None and started_unix < entry.at_unix - CLOCK_SECONDS:
        differences.append(f"it began {entry.at_unix - started_unix:.0f} s before it was announced")
    return differences


def breaks_of(log: Announcements, announced: SignedEntry, first: RunStarted) -> list[str]:
    """Return the differences of a run from its announcement and from the log's entry about its start, one text each."""
    began_unix = None if first.simulated else first.started_unix
    differences = breaks(log, announced, first.config, first.proposal_rules, began_unix)
    if log.seed(announced) is None:
        differences.append("the log has no nonce for its seed")
    begun, withdrawn = log.begun().get(announced.id), log.withdrawn().get(announced.id)
    if begun is None:
        differences.append("the log has no entry that a run began with this announcement")
    elif (begun.run, begun.started_unix) != (first.run, first.started_unix):
        differences.append(
            f"the log has run {begun.run!r} as the one run of this announcement, started at {begun.started_unix!r}"
        )
    elif withdrawn is not None and withdrawn.number < begun.number:
        differences.append(f"the announcement had been withdrawn when it began ({withdrawn.reason})")
    return differences


def as_announced(conf: RunConf, now_unix: float | None = None) -> RunConf:
    """Return the options with the seed of the announcement, if the run may begin as announced. dry_run=true needs no nonce."""
    named = _named(conf)
    if named is None:
        return conf
    wanted, path = named
    log = read_log(path)
    announced = _free(log, wanted, path, needs_nonce=not conf.dry_run)
    seeded = replace(conf, seed=conf.seed or log.seed(announced) or 0)
    config, now_unix = json.loads(json.dumps(as_plain(seeded))), time.time() if now_unix is None else now_unix
    if differing := breaks(log, announced, config, RULES, now_unix):
        more = f", and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
        raise NotAsAnnounced(
            f"a run begins as announced. Differences from {wanted[:12]}…: {'; '.join(differing[:SHOWN])}{more}. "
            "Give the announced options, or announce this run"
        )
    return seeded


def use_announcement(conf: RunConf, folder: Path, first: RunStarted) -> RunStarted:
    """Add an entry to the log of announcements that the run in `folder` begins. Return its first line with the nonce."""
    named = _named(conf)
    if named is None:
        return first
    wanted, path = named

    def begun(log: Announcements) -> RunBegun:
        _free(log, wanted, path)
        return log.following(
            RunBegun,
            time.time(),
            announcement=wanted,
            run=first.run,
            started_unix=first.started_unix,
            folder=str(folder.absolute()),
            host=host_name(),
        )

    add(path, None, begun)
    return msgspec.structs.replace(first, nonce=read_log(path).nonces()[wanted][0])


def _named(conf: RunConf) -> tuple[str, Path] | None:
    if conf.announcement is None and conf.announcement_log is None:
        return None
    if conf.announcement is None or conf.announcement_log is None:
        raise BadConfiguration(
            "an announced run names its announcement and the log that holds it: announcement=ID announcement_log=FILE. "
            f"found announcement={conf.announcement} and announcement_log={conf.announcement_log}"
        )
    if not re.fullmatch("[0-9a-f]{64}", conf.announcement):
        raise BadConfiguration(
            f"announcement is an id of 64 hexadecimal digits, as `announce` printed it, but found {conf.announcement!r}"
        )
    return conf.announcement, log_path(conf.announcement_log)


def _free(log: Announcements, wanted: str, path: Path, *, needs_nonce: bool = True) -> SignedEntry:
    entry = log.by_id(wanted)
    if entry is None or not isinstance(entry.entry, RunAnnounced):
        raise NotAsAnnounced(
            f"an announcement is named by its id. '{path}' holds no announced run {wanted!r}. "
            f"List the ids: python -m aiperf announce --log '{path}' --show"
        )
    if (withdrawn := log.withdrawn().get(wanted)) is not None:
        raise NotAsAnnounced(f"announcement {wanted} was withdrawn ({withdrawn.reason}): announce the run again")
    if (begun := log.begun().get(wanted)) is not None:
        raise NotAsAnnounced(
            f"an announcement serves one run. {wanted[:12]}… was used by run {Path(begun.folder).name!r} (in '{begun.folder}', "
            f"on host {begun.host!r}): announce this run. If that run never wrote a journal, also withdraw its announcement"
        )
    if needs_nonce and wanted not in log.nonces():
        raise NotAsAnnounced(
            f"the seed of an announced run follows from a nonce, but announcement {wanted[:12]}… has none. The holder of the "
            f"key that it names gives it: python -m aiperf announce --nonce {wanted} --key THEIR_KEY --log '{path}'. "
            "An announcement of an earlier release names no key: withdraw it, and announce the run again"
        )
    return entry


@dataclass(frozen=True, slots=True)
class Missing:
    """Announced run without a published journal that agrees with the announcement."""

    id: str
    number: int
    """Number of the announcement in the log."""
    announced_unix: float
    withdrawn: str | None
    """Reason of its withdrawal. None if not withdrawn."""
    begun: str | None = None
    """Run that began with it, from the log. None if no run began."""


@dataclass(frozen=True, slots=True)
class Announced:
    """Comparison of a site's announced and published runs."""

    announced: int
    """Announced runs, including withdrawn ones."""
    published: int
    """Announced runs with a journal that agrees with the announcement."""
    missing: tuple[Missing, ...]
    unannounced: tuple[str, ...]
    """Published runs without an announcement in the log."""
    broken: tuple[tuple[str, tuple[str, ...]], ...]
    """Published runs that differ from their announcement, each with its differences."""
    used_twice: tuple[tuple[str, tuple[str, ...]], ...]
    """Announcements named by several runs, as (id, runs)."""
    withdrawn: tuple[tuple[str, str], ...]
    """Published runs whose announcement was withdrawn, with the reason."""

    @property
    def words(self) -> str:
        """Counts of runs as text: `3 of 4 announced runs published`."""
        return f"{self.published} of {self.announced} announced runs published"


def announced(log: Announcements, runs: Iterable[RunStarted]) -> Announced:
    entries = {each.id: each for each in log.entries if isinstance(each.entry, RunAnnounced)}
    by_id: dict[str, list[RunStarted]] = {}
    unannounced: list[str] = []
    for run in _distinct(runs):
        wanted = run.config.get("announcement")
        if isinstance(wanted, str) and wanted in entries:
            by_id.setdefault(wanted, []).append(run)
        else:
            unannounced.append(run.run)
    named = [(wanted, run, tuple(breaks_of(log, entries[wanted], run))) for wanted, of in by_id.items() for run in of]
    kept = {wanted for wanted, _, how in named if not how}
    withdrawn, begun = log.withdrawn(), log.begun()
    return Announced(
        announced=len(entries),
        published=len(kept),
        missing=tuple(
            Missing(
                id=each.id,
                number=each.entry.number,
                announced_unix=each.entry.at_unix,
                withdrawn=withdrawn[each.id].reason if each.id in withdrawn else None,
                begun=begun[each.id].run if each.id in begun else None,
            )
            for each in entries.values()
            if each.id not in kept
        ),
        unannounced=tuple(unannounced),
        broken=tuple((run.run, how) for _, run, how in named if how),
        used_twice=tuple((wanted, tuple(run.run for run in of)) for wanted, of in by_id.items() if len(of) > 1),
        withdrawn=tuple((run.run, withdrawn[wanted].reason) for wanted, run, _ in named if wanted in withdrawn),
    )


def nonce_fault(log: Announcements, announced: SignedEntry, signers: Signers) -> str:
    """Return why the announcer may have chosen the seed, or '' if another known principal signed the nonce."""
    if announced.id not in log.nonces():
        return "its seed follows from its announcement alone, so the announcer could choose it"
    if signers is None:
        return "it is not checked whose nonce gave its seed: name the principals with --allowed FILE"
    _, entry = log.nonces()[announced.id]
    return "" if is_of_another(entry, announced, signers) else "its nonce is not signed by another known principal"


def is_of_another(entry: str, announced: SignedEntry, signers: Signers) -> bool:
    """Return True if another known principal than that of the announcement signed an entry (its id)."""
    own, by = (set((signers or {}).get(id, ())) for id in (announced.id, entry))
    return bool(own and by) and own.isdisjoint(by)


def rivals(logs: Mapping[str, tuple[Announcements, float]]) -> dict[str, str]:
    """Return the fault of each log that is not the one complete log of its keys, by name.

    The number is the time (seconds since 1970) up to which a log must have all entries.
    """
    faults = {}
    for (name, (log, until)), (other, (rival, _)) in permutations(logs.items(), 2):
        ids, others = [each.id for each in log.entries], [each.id for each in rival.entries]
        keys = _announcing(log) & _announcing(rival)
        if not keys or ids[: len(others)] == others:
            continue
        if others[: len(ids)] != ids:
            faults[name] = f"a key announces in one log, but {', '.join(sorted(keys))} also does in {other!r}"
        elif lacking := [each.entry.number for each in rival.entries[len(ids) :] if each.entry.at_unix < until]:
            faults[name] = (
                f"a log has all its entries, but entries {lacking[0]} to {lacking[-1]} are in {other!r} alone"
            )
    return faults


def _announcing(log: Announcements) -> set[str]:
    return {each.key for each in log.entries if isinstance(each.entry, RunAnnounced) and each.key is not None}


def _distinct(runs: Iterable[RunStarted]) -> list[RunStarted]:
    """Return each run once. Journals with equal first lines belong to one run."""
    by_start: dict[tuple[str, float, str], RunStarted] = {}
    for run in runs:
        by_start.setdefault((run.run, run.started_unix, run.config_hash), run)
    return list(by_start.values())
