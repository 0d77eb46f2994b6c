"""Network and storage of a host are described from the kernel's files, or reported as unknown."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import msgspec
import psutil
import pytest

from aiperf.report.phrases import flattened
from aiperf.system.describe import describe, folders_of, storage
from aiperf.system.network import interface_of, network

MOUNTS = r"""/dev/vda / ext4 rw,relatime 0 0
10.0.0.1@o2ib:/scratch {at}/scratch lustre rw,flock 0 0
server:/a\040b {at}/scratch/with\040blank nfs4 rw 0 0
one {at}/scratch/over tmpfs rw 0 0
two {at}/scratch/over overlay rw 0 0
"""


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder with the mounts of MOUNTS, as the kernel lists them."""
    for name in ("scratch/deep", "scratch/with blank", "scratch/over", "scratchless"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mounts").write_text(MOUNTS.format(at=str(tmp_path).replace(" ", r"\040")))
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("folder", "told"),
    [
        ("scratch/deep", ("lustre", "10.0.0.1@o2ib:/scratch")),
        ("scratch/with blank", ("nfs4", "server:/a b")),
        ("scratch/over", ("overlay", "two")),
        ("scratchless", ("ext4", "/dev/vda")),
    ],
)
def test_a_folder_is_on_the_nearest_upper_mount(mounts: Path, folder: str, told: tuple[str, str]) -> None:
    (found,) = storage({"data set": mounts / folder})

    assert (found.file_system, found.source) == told
    whole = os.statvfs(mounts / folder)
    assert found.size_bytes == whole.f_blocks * whole.f_frsize


def test_a_new_run_folder_has_storage_a_missing_set_none(
    mounts: Path,
) -> None:
    run, images = storage(folders_of(mounts / "scratch/deep/er/run", str(mounts / "scratch/gone")))

    assert run.file_system == "lustre"
    assert images.file_system is None and images.size_bytes is None
    assert images.why_not == "No such file or directory"


def test_without_mounts_the_file_system_is_unknown(mounts: Path) -> None:
    (mounts / "self/mounts").write_text("")
    (found,) = storage({"run": mounts})

    assert found.file_system is None and found.size_bytes and "no mount" in (found.why_not or "")
    rows = dict(flattened({"storage": msgspec.to_builtins((found,))}))
    assert rows["storage.run.file_system"] == "unknown"


def interface(sys: Path, name: str, *, has_device: bool, **files: str) -> None:
    folder = sys / "class/net" / name
    folder.mkdir(parents=True)
    if has_device:
        (folder / "device").mkdir()
    for file, text in files.items():
        (folder / file).write_text(text + "\n")


def test_interfaces_with_a_device_come_before_virtual_ones(
    tmp_path: Path,
) -> None:
    interface(tmp_path, "lo", has_device=False, operstate="unknown")
    interface(tmp_path, "veth12ab", has_device=False, speed="10000", operstate="up")
    assert names(tmp_path) == ["veth12ab"]

    interface(tmp_path, "eth0", has_device=True, speed="25000", operstate="up", mtu="9000")
    interface(tmp_path, "eth1", has_device=True, speed="-1", operstate="down")
    interface(tmp_path, "eth2", has_device=True, operstate="down")

    first, *others = [link for link in network(tmp_path) if isinstance(link, dict)]
    assert names(tmp_path) == ["eth0", "eth1", "eth2"]
    assert (first["kind"], first["megabits_per_second"], first["mtu"]) == (
        "network",
        25000,
        9000,
    )
    assert [each["state"] for each in others] == ["down", "down"]


def names(sys: Path) -> list[str]:
    return [link["name"] for link in network(sys) if isinstance(link, dict)]


def test_this_host_has_boot_and_storage(tmp_path: Path) -> None:
    system = describe(folders_of(tmp_path, None))

    assert system.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert [one.name for one in system.storage] == ["run"] and system.storage[0].file_system


def test_each_address_of_this_host_has_an_interface() -> None:
    names = {name for _, name in socket.if_nameindex()}

    assert interface_of("127.0.0.1") == "lo"
    for addresses in psutil.net_if_addrs().values():
        for each in addresses:
            if each.family == socket.AF_INET:
                assert interface_of(each.address) in names
    with pytest.raises(OSError, match=r"no interface of this host has 203\.0\.113\.77: found .*lo with 127\.0\.0\.1"):
        interface_of("203.0.113.77")
