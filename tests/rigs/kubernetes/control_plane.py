"""Control plane of a real Kubernetes: etcd, API server, controller manager and scheduler. `nodes.py` adds nodes.

The variable AIPERF_KUBERNETES names the folder of the programs, which `build.sh` beside this file makes.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

VARIABLE = "AIPERF_KUBERNETES"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
OTHERS = ("etcd", "openssl", "setpriv")
START_SECONDS = 60.0
RESTRICTED: dict[str, Any] = {
    "apiVersion": "policy/v1beta1",
    "kind": "PodSecurityPolicy",
    "metadata": {
        "name": "restricted",
        "annotations": {"seccomp.security.alpha.kubernetes.io/allowedProfileNames": "runtime/default"},
    },
    "spec": {
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "requiredDropCapabilities": ["ALL"],
        "volumes": ["configMap", "downwardAPI", "emptyDir", "persistentVolumeClaim", "projected", "secret"],
        "runAsUser": {"rule": "MustRunAsNonRoot"},
        "seLinux": {"rule": "RunAsAny"},
        "supplementalGroups": {"rule": "MustRunAs", "ranges": [{"min": 1, "max": 65535}]},
        "fsGroup": {"rule": "MustRunAs", "ranges": [{"min": 1, "max": 65535}]},
    },
}
"""The only policy, so it holds for all pods. Kubernetes 1.20 has no pod security standards yet."""


def missing() -> str | None:
    """Return the reason why no control plane can start here. None if it can."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return f"{VARIABLE} names no folder of Kubernetes programs"
    absent = [name for name in PROGRAMS if not (Path(folder) / name).is_file()]
    absent += [name for name in OTHERS if shutil.which(name) is None]
    return f"missing: {', '.join(absent)}" if absent else None


class ControlPlane:
    """Use `control_plane(folder)`."""

    def __init__(self, folder: Path, address: str = "127.0.0.1", services: str = "10.96.0.0/16") -> None:
        """`address`: address of this machine for the API server.

        It is reached by pods if it is the first address of `services`, the network of service addresses.
        """
        self.folder = folder
        self.address, self._services = address, services
        self._etcd_port, free = _free_ports(2)
        self._port = free if address.startswith("127.") else 443
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.admin = folder / "admin.kubeconfig"

    def kubeconfig(self, user: str, *, group: str | None = None) -> Path:
        """Return the path of a kubeconfig whose client certificate names this user and group."""
        self._certificate(user, f"/O={group}/CN={user}" if group else f"/CN={user}")
        path = self.folder / f"{user}.kubeconfig"
        server = {
            "server": f"https://{self.address}:{self._port}",
            "certificate-authority": str(self.folder / "ca.crt"),
        }
        login = {
            "client-certificate": str(self.folder / f"{user}.crt"),
            "client-key": str(self.folder / f"{user}.key"),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": server}],
            "users": [{"name": user, "user": login}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }
        path.write_text(yaml.safe_dump(config))
        return path

    def kubectl(self, *words: str, manifest: str | None = None) -> str:
        """Return the output of kubectl as administrator. Fails if kubectl does."""
        done = subprocess.run(
            [self._program("kubectl"), "--kubeconfig", str(self.admin), *words],
            input=manifest,
            capture_output=True,
            text=True,
            env={**os.environ, "HOME": str(self.folder)},
        )
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def apply(self, *objects: dict[str, Any]) -> None:
        """Create or replace these objects."""
        self.kubectl("apply", "-f", "-", manifest=yaml.safe_dump_all(objects))

    def up(self) -> None:
        """Make the keys and start the four programs."""
        self._openssl("genrsa", "-out", "ca.key", "2048")
        self._openssl("req", "-x509", "-new", "-key", "ca.key", "-subj", "/CN=test-ca", "-days", "2", "-out", "ca.crt")
        self._openssl("genrsa", "-out", "accounts.key", "2048")
        self._certificate("apiserver", "/CN=kube-apiserver", f"subjectAltName=IP:{self.address}")
        self.kubeconfig("admin", group="system:masters")
        etcd = f"http://127.0.0.1:{self._etcd_port}"
        self._start("etcd", "--data-dir", "etcd", "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
                    "--listen-peer-urls", "http://127.0.0.1:0", "--unsafe-no-fsync", "--log-level", "error")  # fmt: skip
        self.start_server()
        self.apply(RESTRICTED)
        self._start("kube-controller-manager", f"--kubeconfig={self.admin}", "--leader-elect=false",
                    "--port=0", "--secure-port=0", "--use-service-account-credentials=false", "--root-ca-file=ca.crt",
                    "--service-account-private-key-file=accounts.key", "--node-monitor-period=2s",
                    "--node-monitor-grace-period=30s")  # fmt: skip
        self._start("kube-scheduler", f"--kubeconfig={self.admin}", "--leader-elect=false", "--port=0",
                    "--secure-port=0")  # fmt: skip
        self.wait(lambda: "default" in self.kubectl("get", "serviceaccounts", "-n", "default", "-o", "name"))

    def start_server(self) -> None:
        """Start the API server, and wait until it is ready."""
        self._start("kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self._etcd_port}", f"--bind-address={self.address}",
                    f"--secure-port={self._port}", "--insecure-port=0", f"--advertise-address={self.address}",
                    "--tls-cert-file=apiserver.crt", "--tls-private-key-file=apiserver.key", "--client-ca-file=ca.crt",
                    "--service-account-issuer=https://kubernetes.default.svc",
                    "--service-account-key-file=accounts.key", "--service-account-signing-key-file=accounts.key",
                    f"--service-cluster-ip-range={self._services}", "--authorization-mode=Node,RBAC",
                    "--kubelet-preferred-address-types=InternalIP", "--default-unreachable-toleration-seconds=4",
                    "--enable-admission-plugins=PodSecurityPolicy",
                    "--endpoint-reconciler-type=none", "--cert-dir=certificates")  # fmt: skip
        self.wait(lambda: self.kubectl("get", "--raw", "/readyz").strip() == "ok")

    def stop_server(self) -> None:
        """Kill the API server. The objects stay in etcd."""
        self._kill("kube-apiserver")

    def down(self) -> None:
        """End all programs, the API server last but one, so that none waits for it."""
        for name in reversed(list(self._processes)):
            self._kill(name)

    def wait(self, is_true: Callable[[], bool]) -> None:
        """Wait until the condition holds. A failed kubectl counts as false. Fails after a minute."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            with suppress(AssertionError):
                if is_true():
                    return
            assert time.monotonic() < deadline, self._logs()
            time.sleep(0.2)

    def _start(self, name: str, *words: str) -> None:
        program = self._program(name) if name in PROGRAMS else name
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [
                    "setpriv",
                    "--pdeathsig=KILL",
                    "nice",
                    "-n",
                    "-10",
                    program,
                    *words,
                ],  # nodes are lost if it answers late
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def _program(self, name: str) -> str:
        return str(Path(os.environ[VARIABLE]) / name)

    def _certificate(self, name: str, subject: str, extension: str = "subjectAltName=DNS:client") -> None:
        (self.folder / f"{name}.extensions").write_text(extension)
        self._openssl("genrsa", "-out", f"{name}.key", "2048")
        self._openssl("req", "-new", "-key", f"{name}.key", "-subj", subject, "-out", f"{name}.csr")
        self._openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
                      "-days", "2", "-out", f"{name}.crt", "-extfile", f"{name}.extensions")  # fmt: skip

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

    def _logs(self) -> str:
        ends: Sequence[str] = [
            f"{path.name}: {path.read_text(errors='replace')[-1500:]}" for path in self.folder.glob("*.log")
        ]
        return "\n".join(ends)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@contextmanager
def control_plane(folder: Path) -> Iterator[ControlPlane]:
    """Control plane that ends with the block, with all its processes."""
    plane = ControlPlane(folder)
    try:
        plane.up()
        yield plane
    finally:
        plane.down()
