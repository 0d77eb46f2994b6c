"""A run and its announcement: what is announced of a configuration, and whether a run may begin, or has begun, as announced.

At its start a run is held to its announcement before anything is brought up, and the announcement is marked as used, beside the
log, so that it serves once. The mark guards against mistakes; whoever has several submissions sees by their journals whether
one announcement was used twice (`aiperf.submission.published`).
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiperf.config import RunConf, as_plain
from aiperf.errors import BadConfiguration, NotAsAnnounced
from aiperf.journal.events import RunStarted
from aiperf.journal.first_line import config_hash
from aiperf.planning.plan import check_options
from aiperf.submission.announcement_file import log_path, read_log
from aiperf.submission.announcements import Announcements, RunAnnounced, Signed
from aiperf.submission.differences import differences
from aiperf.system.describe import versions
from searchers.propose import RULES

OWN = frozenset({"announcement", "announcement_log", "runs", "dry_run", "resume", "resume_until", "space"})
"""Parts of a journal's configuration that no announcement holds: its own id and place, where the run's folder lies, what only
this command line says, and what is worked out of the workers once they are there."""
SHOWN = 8
CLOCK_SECONDS = 1.0
"""Two hosts' clocks may differ by as much before a run counts as begun before its announcement."""


def announced_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Of a configuration, what an announcement holds."""
    return {name: value for name, value in config.items() if name not in OWN}


def announcement(conf: RunConf, log: Announcements, now_unix: float) -> RunAnnounced:
    """The next entry of a log, of a run that is configured so.

    Raises:
        BadConfiguration: what no run can be begun with, or what is chosen only when it begins.
    """
    check_options(conf)
    given = [name for name in ("announcement", "announcement_log", "resume") if getattr(conf, name) is not None]
    if given or conf.dry_run:
        raise BadConfiguration(
            f"an announcement is of a run that is to be begun; leave {', '.join(given) or 'dry_run'} out"
        )
    if getattr(conf.cluster, "profile", None) is not None:
        raise BadConfiguration(
            "an announced configuration is whole; cluster.profile takes figures from another run when it begins: leave it out"
        )
    config = announced_config(json.loads(json.dumps(as_plain(conf))))
    return RunAnnounced(
        number=len(log.entries) + 1,
        previous=log.head,
        at_unix=now_unix,
        seed=conf.seed,
        config=config,
        config_hash=config_hash(config),
        proposal_rules=RULES,
        release=versions().get("aiperf-cluster", "unknown"),
    )


def breaks(said: RunAnnounced, config: Mapping[str, Any], rules: int, started_unix: float | None) -> list[str]:
    """How a run differs from what was announced of it, in words; empty: it does not. `started_unix` None: its time is none, as
    of a simulated run."""
    found = [
        f"{name} is {run!r}, and {announced!r} was announced"
        for name, announced, run in differences(said.config, announced_config(config))
    ]
    if rules != said.proposal_rules:
        found.append(f"its proposals follow rules {rules}, and rules {said.proposal_rules} were announced")
    if started_unix is not None and started_unix < said.at_unix - CLOCK_SECONDS:
        found.append(f"it began {said.at_unix - started_unix:.0f} s before it was announced")
    return found


def breaks_of(said: RunAnnounced, first: RunStarted) -> list[str]:
    """The same of a journal's first line."""
    return breaks(said, first.config, first.proposal_rules, None if first.simulated else first.started_unix)


def require_announced(conf: RunConf, now_unix: float | None = None) -> None:
    """Holds a run that is about to begin to its announcement, where it names one.

    Raises:
        NotAsAnnounced: it differs, each option named; it was withdrawn, or used already; or there is none of that id.
        AnnouncementsDamaged: the log is not whole.
    """
    named = _named(conf)
    if named is None:
        return
    wanted, path = named
    log = read_log(path)
    found = log.by_id(wanted)
    if found is None or not isinstance(found.entry, RunAnnounced):
        raise NotAsAnnounced(f"an announcement is named by its id; '{path}' holds no announced run {wanted!r}")
    if wanted in (withdrawn := log.withdrawn()):
        raise NotAsAnnounced(f"announcement {wanted} was withdrawn ({withdrawn[wanted]}): announce the run again")
    _require_unused(_mark(path, wanted), wanted)
    _require_same(found, conf, time.time() if now_unix is None else now_unix)


def use_announcement(conf: RunConf, folder: Path) -> None:
    """Marks a run's announcement as used by the run of this folder; called when all stands that it needs, before its journal.

    Raises NotAsAnnounced: another run has used it since, or the mark could not be written.
    """
    named = _named(conf)
    if named is None:
        return
    wanted, path = named
    mark = _mark(path, wanted)
    told = {"run": folder.name, "folder": str(folder.absolute()), "host": socket.gethostname(), "at_unix": time.time()}
    try:
        mark.parent.mkdir(exist_ok=True)
        with mark.open("x") as file:
            file.write(json.dumps(told))
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        _require_unused(mark, wanted)
    except OSError as error:
        raise NotAsAnnounced(
            f"an announcement serves one run, which is noted in '{mark}'; it cannot be written ({error.strerror})"
        ) from error


def _named(conf: RunConf) -> tuple[str, Path] | None:
    if conf.announcement is None and conf.announcement_log is None:
        return None
    if conf.announcement is None or conf.announcement_log is None:
        raise BadConfiguration(
            "an announced run names its announcement and the log that holds it: announcement=ID announcement_log=FILE; "
            f"found announcement={conf.announcement} and announcement_log={conf.announcement_log}"
        )
    if not re.fullmatch("[0-9a-f]{64}", conf.announcement):
        raise BadConfiguration(
            f"announcement is an id of 64 hexadecimal digits, as `announce` printed it; found {conf.announcement!r}"
        )
    return conf.announcement, log_path(Path(conf.announcement_log))


def _require_same(found: Signed, conf: RunConf, now_unix: float) -> None:
    assert isinstance(found.entry, RunAnnounced)
    differing = breaks(found.entry, json.loads(json.dumps(as_plain(conf))), RULES, now_unix)
    if differing:
        more = f"; and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
        raise NotAsAnnounced(
            f"a run is begun as it was announced; of announcement {found.id[:12]}… {'; '.join(differing[:SHOWN])}{more}. "
            "Give the announced options, or announce this run"
        )


def _require_unused(mark: Path, wanted: str) -> None:
    try:
        told = json.loads(mark.read_text())
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise NotAsAnnounced(
            f"an announcement serves one run; '{mark}' says which, and cannot be read ({error})"
        ) from error
    raise NotAsAnnounced(
        f"an announcement serves one run; {wanted[:12]}… was used by run {told.get('run')!r} (in '{told.get('folder')}', on "
        f"host {told.get('host')!r}): announce this one. If that folder holds no journal, the run never began: "
        + shlex.join(["rm", str(mark)])
    )


def _mark(path: Path, wanted: str) -> Path:
    return path.with_name(f"{path.name}.used") / f"{wanted}.json"
