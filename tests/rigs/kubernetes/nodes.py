"""Nodes of a real Kubernetes on this machine: hosts of `namespaces.py` with kubelet, containerd, runc and a CNI bridge.

AIPERF_IMAGE names the image of all pods in podman's storage. The pods' network policies have no effect, since the bridge
knows none, and there is neither DNS nor a proxy for services other than the API server's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import yaml

from tests.rigs.kubernetes import control_plane
from tests.rigs.kubernetes.control_plane import ControlPlane
from tests.rigs.namespaces import HostsRig
from tests.rigs.namespaces import missing as missing_for_hosts

IMAGE = "AIPERF_IMAGE"
PAUSE = "localhost/aiperf-pause:1"
"""Image of a pod's first container, which holds its network."""
OTHERS = ("containerd", "ctr", "runc", "podman", "iptables")
PLUGINS = Path("/usr/lib/cni")
CONTROLLERS = Path("/sys/fs/cgroup")
USER = 1000
"""Owner of the volumes, as `cluster.user`. fsGroup has no effect on a folder of the node."""
KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "cgroupDriver": "cgroupfs",
    "cpuCFSQuota": False,
    "enforceNodeAllocatable": [],
    "evictionHard": {"memory.available": "100Mi"},
    "failSwapOn": False,
    "imageGCHighThresholdPercent": 100,
    "makeIPTablesUtilChains": False,
    "nodeStatusReportFrequency": "2s",
    "nodeStatusUpdateFrequency": "2s",
    "syncFrequency": "2s",
}
CONTAINERD = f"""
version = 2
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{PLUGINS}"
    conf_dir = "/run/cni"
"""
# The first process of a node reaps the others. Kubelet changes the kernel's settings, and must change copies of them here
NODE = """
folder={folder}/$1
until [ -f $folder/kubeconfig ]; do sleep 0.1; done
set -e
for each in /run /var/lib /var/log; do mount -t tmpfs tmpfs $each; done
mkdir -p /run/cni /var/lib/containerd /var/lib/kubelet
cp $folder/bridge.conflist /run/cni
mount --bind $folder/containerd /var/lib/containerd
echo 1 > /proc/sys/net/ipv4/ip_forward
for each in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \\
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  name=${{each%=*}}
  echo ${{each#*=}} > /run/${{name//\\//.}}
  mount --bind /run/${{name//\\//.}} /proc/sys/$name
done
containerd --config {folder}/containerd.toml >> $folder/containerd.log 2>&1 &
{kubelet} --config={folder}/kubelet.yaml --kubeconfig=$folder/kubeconfig --container-runtime=remote \\
  --container-runtime-endpoint=unix:///run/containerd/containerd.sock --hostname-override=$1 --cgroup-root=/$1 \\
  --node-ip=$(cat $folder/address) >> $folder/kubelet.log 2>&1
"""


def missing() -> str | None:
    """Return the reason why no nodes can start here. None if they can."""
    if (why := control_plane.missing() or missing_for_hosts(*OTHERS)) is not None:
        return why
    if not (Path(os.environ[control_plane.VARIABLE]) / "kubelet").is_file() or not (PLUGINS / "bridge").is_file():
        return "nodes need kubelet and the plugins of CNI"
    if not (CONTROLLERS / "cpuset").is_dir():
        return "nodes need control groups of version 1"
    return None if os.environ.get(IMAGE) else f"{IMAGE} names no image"


class Cluster:
    """Use `cluster(folder, nodes)`."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self.folder = folder
        self.hosts = HostsRig(folder, nodes, init=f"bash {folder}/node.sh {{name}}")
        self.nodes = self.hosts.names
        # the second half of the hosts' network is that of services. Its first address belongs to the API server
        self.plane = ControlPlane(folder, f"{self.hosts.subnet}.129", f"{self.hosts.subnet}.128/25")
        self.image = os.environ[IMAGE]

    def up(self) -> None:
        """Start the control plane and the nodes. Return when all nodes are ready."""
        kubelet = Path(os.environ[control_plane.VARIABLE]) / "kubelet"
        (self.folder / "node.sh").write_text(NODE.format(folder=self.folder, kubelet=kubelet))
        (self.folder / "containerd.toml").write_text(CONTAINERD)
        (self.folder / "kubelet.yaml").write_text(yaml.safe_dump(KUBELET | {"clusterDNS": [self.plane.address]}))
        store = self._store()
        for name in self.nodes:
            _control_groups(name)
            (self.folder / name).mkdir()
            _linked(store, self.folder / name / "containerd")
        self.hosts.up()
        _run("ip", "addr", "add", f"{self.plane.address}/32", "dev", self.hosts.bridge)
        for name in self.nodes:
            self._pod_network(name)
        self.plane.up()
        for name in self.nodes:
            config = self.plane.kubeconfig(f"system:node:{name}", group="system:nodes")
            config.rename(self.folder / name / "kubeconfig")
        self.await_nodes(set(self.nodes))

    def down(self) -> None:
        """End all processes, and remove the networks and the control groups."""
        self.hosts.down()
        self.plane.down()
        for name in self.nodes:
            self.plane.wait(partial(_has_no_groups, name))

    def off(self, node: str) -> None:
        """End all processes of a node at once, as a power failure does."""
        self.hosts.off(node)

    def on(self, node: str) -> None:
        """Boot the node again, and wait until it is ready."""
        self.hosts.on(node)
        self.await_nodes({node})

    def await_nodes(self, names: set[str]) -> None:
        """Wait until these nodes are ready and accept pods."""
        self.plane.wait(lambda: names <= {line.split()[0] for line in self._node_lines() if line.split()[1] == "Ready"})

    def new_namespace(self, name: str) -> Path:
        """Create a namespace with a bound claim `aiperf-runs`, and return the folder behind the claim."""
        folder = self.folder / "volumes" / name
        folder.mkdir(parents=True)
        os.chown(folder, USER, USER)
        self.plane.kubectl("create", "namespace", name)
        self.plane.wait(lambda: "default" in self.plane.kubectl("get", "serviceaccounts", "-n", name, "-o", "name"))
        size = {"storage": "10Gi"}
        shared = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {**shared, "capacity": size, "hostPath": {"path": str(folder)}},
        }
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "aiperf-runs", "namespace": name},
            "spec": {**shared, "volumeName": name, "resources": {"requests": size}},
        }
        self.plane.apply(volume, claim)
        return folder

    def _store(self) -> Path:
        """Return a folder of containerd that holds the images, unpacked. It is kept next to the programs of Kubernetes."""
        number = _run("podman", "image", "inspect", "--format", "{{.Id}}", self.image).strip()
        store = Path(os.environ[control_plane.VARIABLE]) / f"containerd-{number[:12]}"
        if store.is_dir():
            return store
        made = store.with_suffix(".made")
        shutil.rmtree(made, ignore_errors=True)  # of a process that was killed
        _run("podman", "build", "--tag", PAUSE, "-", given=f'FROM {self.image}\nCMD ["sleep", "infinity"]\n')
        archive, socket = self.folder / "images.tar", self.folder / "store.sock"
        _run("podman", "save", "--multi-image-archive", "--output", str(archive), self.image, PAUSE)
        words = ["containerd", "--root", str(made), "--state", str(self.folder / "state"), "--address", str(socket)]
        with (self.folder / "store.log").open("wb") as log:
            daemon = subprocess.Popen([*words, "--config", os.devnull], stdout=log, stderr=log)
        try:
            self.plane.wait(socket.is_socket)
            _run("ctr", "--address", str(socket), "--namespace", "k8s.io", "images", "import", str(archive))
        finally:
            daemon.terminate()
            daemon.wait()
        archive.unlink()
        return made.rename(store)

    def _pod_network(self, name: str) -> None:
        """Write the configuration of the node's bridge, and the routes to its pods."""
        pods, address = self._pods_of(name), self.hosts.address[name]
        ipam = {
            "type": "host-local",
            "ranges": [[{"subnet": pods}]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": "/run/ipam",
        }
        bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": ipam}
        folder = self.folder / name
        (folder / "bridge.conflist").write_text(
            json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]})
        )
        (folder / "address").write_text(address)
        _run("ip", "route", "add", pods, "via", address)
        for other in self.nodes:
            if other != name:
                _run("ip", "-n", other, "route", "add", pods, "via", address)

    def _pods_of(self, name: str) -> str:
        _, second, third = self.hosts.subnet.split(".")
        return f"10.{int(second) + 100}.{third}.{16 * self.nodes.index(name)}/28"

    def _node_lines(self) -> list[str]:
        return self.plane.kubectl("get", "nodes", "--no-headers").splitlines()


def _linked(store: Path, copy: Path) -> None:
    """Copy a folder of containerd by hard links. Images do not change. The databases are copied."""
    _run("cp", "--archive", "--link", str(store), str(copy))
    for database in store.rglob("*.db"):
        linked = copy / database.relative_to(store)
        linked.unlink()
        shutil.copy(database, linked)


def _control_groups(name: str) -> None:
    for controller in CONTROLLERS.iterdir():
        if controller.is_dir():
            (controller / name).mkdir()
    # by default a group has the weight of one process, and Ray gives up a start that takes 30 s
    (CONTROLLERS / "cpu" / name / "cpu.shares").write_text("4096")
    for field in ("cpuset.cpus", "cpuset.mems"):
        (CONTROLLERS / "cpuset" / name / field).write_text((CONTROLLERS / "cpuset" / field).read_text())


def _has_no_groups(name: str) -> bool:
    """Remove the control groups of a node. Return False if a process of it has not ended yet."""
    groups = list(CONTROLLERS.glob(f"*/{name}"))
    words = ["-depth", "-type", "d", "-delete"]
    return not groups or subprocess.run(["find", *groups, *words], stderr=subprocess.DEVNULL).returncode == 0


def _run(*words: str, given: str | None = None) -> str:
    done = subprocess.run(words, input=given, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout


@contextmanager
def cluster(folder: Path, nodes: int) -> Iterator[Cluster]:
    """Kubernetes with this number of nodes. It ends with the block, with all its processes."""
    rig = Cluster(folder, nodes)
    try:
        rig.up()
        yield rig
    finally:
        rig.down()
