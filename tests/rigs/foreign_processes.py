"""Strangers of a run's Ray: on another machine of its network, and on its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent.parent
STRANGER = """
import logging, os, sys, ray
gcs = sys.argv[1]
ray.init(address=gcs, _node_ip_address=gcs.rpartition(":")[0], log_to_driver=False, logging_level=logging.ERROR)

@ray.remote(num_cpus=0)
def run():
    return os.getpid()

print("RAN", ray.get(run.remote(), timeout=600))
"""
"""Join Ray and run a function there."""
KNOCK = """
import socket, sys
for address in sys.argv[1:]:
    host, _, port = address.rpartition(":")
    with socket.socket() as knocking:
        knocking.settimeout(5)
        print(address, knocking.connect_ex((host, int(port))) == 0)
"""
"""Return the addresses that accept a connection."""


def no_namespaces() -> str | None:
    """Return the reason for the lack of network namespaces, or None."""
    if sys.platform != "linux" or shutil.which("ip") is None:
        return "needs ip(8) (Debian: iproute2) for a network namespace"
    if os.geteuid() != 0:
        return "needs root for a network namespace"
    name = f"aiperf-try-{os.getpid()}"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if tried.returncode:
        return f"no network namespace is to be had here: {tried.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return None


@contextmanager
def another_machine() -> Iterator[tuple[list[str], str]]:
    """Create a network namespace next to this host's.

    Yield the start of command lines in it, and this host's address as seen from it. Every address of this host can be
    reached from it, as from a machine on the same network.
    """
    number = os.getpid() % (64 * 256)
    name, here, there = f"aiperf-{os.getpid()}", f"ap{number}h", f"ap{number}n"
    subnet = f"10.{213 + number // 4096}.{number // 16 % 256}"
    host, stranger = f"{subnet}.{number % 16 * 4 + 1}", f"{subnet}.{number % 16 * 4 + 2}"
    inside = ["ip", "netns", "exec", name]

    def do(*words: str) -> None:
        subprocess.run(words, check=True)

    do("ip", "netns", "add", name)
    try:
        do("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        try:
            do("ip", "addr", "add", f"{host}/30", "dev", here)
            do("ip", "link", "set", here, "up")
            do(*inside, "ip", "addr", "add", f"{stranger}/30", "dev", there)
            do(*inside, "ip", "link", "set", there, "up")
            do(*inside, "ip", "link", "set", "lo", "up")
            do(*inside, "ip", "route", "add", "default", "via", host)
            yield inside, host
        finally:
            do("ip", "link", "del", here)
    finally:
        do("ip", "netns", "del", name)


def come(
    gcs: str, *, inside: list[str], token: str | None = None, tls: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A stranger tries to run something on a Ray: with a token and a certificate, or with none."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= (
        {"RAY_AUTH_MODE": "disabled"} if token is None else {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    )
    environment |= tls or {}
    # the stranger uses 127.0.0.1 as given, but Ray would use the host's outer address
    environment["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    return subprocess.run(
        ["timeout", "-k", "1", "900", *inside, sys.executable, "-c", STRANGER, gcs],
        capture_output=True,
        text=True,
        env=environment,
    )


def knock(addresses: list[str], *, inside: list[str]) -> set[str]:
    """Return the addresses that accept a connection from there."""
    said = subprocess.run(
        [*inside, sys.executable, "-c", KNOCK, *addresses], capture_output=True, text=True, check=True
    )
    return {line.split()[0] for line in said.stdout.splitlines() if line.endswith("True")}


def listening(pids: list[int]) -> set[int]:
    """The TCP ports on which any of these processes listens, by /proc."""
    inodes = set()
    for pid in pids:
        for file in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                found = re.fullmatch(r"socket:\[(\d+)\]", str(file.readlink()))
            except OSError:
                continue
            if found:
                inodes.add(found[1])
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports
