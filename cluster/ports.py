"""Table of the network ports on which the processes of a run listen, for docs/security.md."""

from __future__ import annotations

from dataclasses import dataclass

HEAD_PORTS = {"gcs-server": 6379, "dashboard": 8265, "client": 10001, "metrics": 8080}
"""Fixed ports of Ray's head in a pod of KubeRay. Nodes have the metrics port only."""


@dataclass(frozen=True, slots=True)
class ListeningPort:
    """Network ports of one purpose, as a row of the table in docs/security.md."""

    purpose: str
    process: str
    one_machine: str
    """Addresses of a run on one machine. '' if there is no such port."""
    several_hosts: str
    protocol: str
    without_token: str
    """Answer to a client without the run's certificate and token."""
    time: str


_HEAD_TO_END = "head to end"
_TLS = "refused in the handshake"
_USERS = "open to users of this host"
LISTENING_PORTS = (
    ListeningPort("gcs", "gcs_server, head", "loopback", "all", "gRPC in TLS", _TLS, _HEAD_TO_END),
    ListeningPort(
        "node manager, object manager", "raylet, each node", "loopback", "all", "gRPC in TLS", _TLS, _HEAD_TO_END
    ),
    ListeningPort("driver", "python -m aiperf, head", "loopback", "all", "gRPC in TLS", _TLS, _HEAD_TO_END),
    ListeningPort(
        "actors and idle workers",
        "ray::WorkerHost, ray::Generator, ray::Mailbox, ray::IDLE",
        "loopback",
        "all",
        "gRPC in TLS",
        _TLS,
        "while each lives",
    ),
    ListeningPort(
        "runtime environments",
        "ray::RuntimeEnvAgent, each node",
        "loopback",
        "the node's address",
        "HTTP, with the token alone: Ray has no TLS there",
        "401",
        _HEAD_TO_END,
    ),
    ListeningPort(
        "agent, only with `ray[default]`",
        "ray::DashboardAgent, each node",
        "",
        "all",
        "gRPC in TLS, HTTP with the token alone",
        "refused, except `/api/healthz` and `/api/local_raylet_healthz`",
        _HEAD_TO_END,
    ),
    ListeningPort(
        "Horovod's rendezvous (`aiperf/train/ranks/rendezvous.py`)",
        "ray::WorkerHost, leading host",
        "loopback",
        "the host's cluster address",
        "HTTP: bytes under names, no code",
        f"{_USERS} and to the worker's other hosts, by source address. Other connections are closed without a byte",
        "until all ranks have met",
    ),
    ListeningPort(
        "torch's store of a worker of several hosts",
        "first rank",
        "",
        "loopback of the leading host",
        "bytes under names, no code",
        _USERS,
        "while the group lives",
    ),
    ListeningPort(
        "relay to torch's store (`aiperf/train/ranks/rendezvous.py`)",
        "ray::WorkerHost, leading host",
        "",
        "the host's cluster address",
        "that of the store",
        "as Horovod's rendezvous",
        "until all ranks have met",
    ),
    ListeningPort(
        "Gloo, NCCL within a node",
        "ranks",
        "loopback",
        "loopback",
        "gradients, no code",
        _USERS,
        "while a group of several ranks lives",
    ),
    ListeningPort(
        "Gloo, NCCL of a worker of several hosts",
        "ranks",
        "",
        "the interface with the host's cluster address",
        "gradients, no code",
        "open to everybody who reaches the address",
        "while a group of several ranks lives",
    ),
)
