"""A run over several hosts, by their socket tables: a stranger without the token gets nothing done at any port of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from aiperf.journal.journal import read
from cluster.place import HEAD_FILE
from tests.cluster.test_hosts_real import command, folder, on_hosts, trains, wait_for
from tests.rigs.namespaces import REPOSITORY
from tests.rigs.processes import command_line, listening_sockets
from tests.rigs.ssh import SshRig, missing, ssh_hosts

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        missing() is not None and os.environ.get("AIPERF_SSH") != "required", reason=f"no hosts with ssh: {missing()}"
    ),
]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshRig]:
    """Head, worker, and a stranger's machine on the same network."""
    with ssh_hosts(tmp_path_factory.mktemp("ssh"), 3) as rig:
        yield rig


def answers(rig: SshRig, name: str, addresses: list[str]) -> dict[str, dict[str, Any]]:
    """Return the answers to a stranger on that host."""
    knocking = [*rig.entering(name), "--", sys.executable, str(REPOSITORY / "tests/rigs/foreign_client.py"), *addresses]
    done = subprocess.run(knocking, capture_output=True, text=True, check=True)
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


def test_a_stranger_is_refused_at_any_port_of_any_host(rig: SshRig) -> None:
    first, second, stranger = rig.names
    process = command(rig, first, *on_hosts(rig, second), "schedule.duration_seconds=1800", "name=open")
    try:
        wait_for(trains(rig, "open", {second}), process)
        head = json.loads((folder(rig, "open") / HEAD_FILE).read_text())
        token, key = head["token"].encode(), head["authority"]["key"].splitlines()[1].encode()
        sockets = {name: listening_sockets(rig.pids(name)) for name in (first, second)}
        wide = {
            f"{rig.address[name]}:{one.port}": one.program
            for name, there in sockets.items()
            for one in there
            if not one.is_loopback and "sshd" not in one.program
        }

        found = answers(rig, stranger, list(wide))

        assert token not in b"".join(command_line(pid) for name in (first, second) for pid in rig.pids(name))
        for name in (first, second):
            programs = " ".join(one.program for one in sockets[name])
            assert "raylet" in programs and "ray::" in programs, programs
        spoke: dict[str, str] = {}
        for address, told in found.items():
            assert set(told["grpc"].values()) == {None}, (wide[address], told)
            pages = {request: page for request, page in told["http"].items() if page}
            assert all(page.startswith(("401", "403")) for page in pages.values()), (wide[address], told)
            assert told["tls"] != "accepted", (wide[address], told)
            assert told["tls"] or pages or told["raw"] == "", (wide[address], told)
            spoke[address] = "TLS" if told["tls"] else "HTTP" if pages else "nothing"
        assert {"TLS", "HTTP"} <= set(spoke.values()), spoke
        assert all(
            spoke[address] == "TLS" for address, program in wide.items() if re.search("gcs_server|raylet", program)
        ), spoke
        wait_for(trains(rig, "open", {second}, since=len(list(read(folder(rig, "open"))))), process)
        print("\n".join(f"{address} {spoke[address]} {program}" for address, program in sorted(wide.items())))
    finally:
        (folder(rig, "open") / "end-requested").touch()
        process.communicate(timeout=300)

    for file in folder(rig, "open").rglob("*"):
        if file.is_file():
            assert token not in file.read_bytes() and key not in file.read_bytes(), file
    assert not (folder(rig, "open") / HEAD_FILE).exists()


def test_the_stranger_knows_a_service_that_lets_everybody_in(rig: SshRig) -> None:
    """The test above can fail: a page for all on one of the hosts."""
    open_to_all = rig.folder / "open-to-all"  # a folder that the hosts see
    open_to_all.mkdir()
    (open_to_all / "metrics").write_text("score 1")
    serving = [*rig.entering(rig.names[0]), f"--wd={open_to_all}", "--", sys.executable, "-m", "http.server", "8099"]
    with subprocess.Popen(serving, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            address = f"{rig.address[rig.names[0]]}:8099"
            wait_for(lambda: answers(rig, rig.names[2], [address])[address]["http"]["GET /metrics"].startswith("200"))
        finally:
            server.kill()
