"""Description of a node: on trees of files like a kernel's, and on this host."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aiperf.system import node_parts
from aiperf.system.describe import describe_node, hash_of
from aiperf.system.network import network, pci
from aiperf.system.node_parts import UNREAD, chosen, memory, number, processors, text
from aiperf.system.of_run import differences, flattened, hardware, in_words

PARTS = {
    "maker", "firmware", "processors", "memory", "accelerators", "pci", "network", "storage", "kernel", "libraries",
    "container", "limits", "environment",
}  # fmt: skip


def written(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


def two_sockets(root: Path) -> Path:
    """Two sockets of two cores with two hardware threads each."""
    cpus = "sys/devices/system/cpu"
    files = {"proc/cpuinfo": "model name\t: Abacus 9000\nflags\t: fpu avx2 amx_bf16\n", f"{cpus}/smt/control": "on\n"}
    for thread in range(8):
        core = thread % 4
        files[f"{cpus}/cpu{thread}/topology/physical_package_id"] = f"{core // 2}\n"
        files[f"{cpus}/cpu{thread}/topology/thread_siblings_list"] = f"{core},{core + 4}\n"
        files[f"{cpus}/cpu{thread}/cpufreq/scaling_governor"] = "performance\n" if thread else "powersave\n"
    files[f"{cpus}/vulnerabilities/meltdown"] = "Not affected\n"
    files[f"{cpus}/vulnerabilities/spectre_v2"] = "Mitigation: Retpolines\n"
    for node in range(2):
        files[f"sys/devices/system/node/node{node}/cpulist"] = f"{node}-{node + 1}\n"
        files[f"sys/devices/system/node/node{node}/meminfo"] = f"Node {node} MemTotal:  {64 << 20} kB\n"
    return written(root, files)


def test_processors_count_by_socket_core_and_thread(tmp_path: Path) -> None:
    root = two_sockets(tmp_path)

    told = processors(root / "proc", root / "sys")

    assert (told["sockets"], told["cores"], told["hardware_threads"], told["threads_of_a_core"]) == (2, 4, 8, 2)
    assert (told["model"], told["smt"], told["features"]) == ("Abacus 9000", "on", "amx_bf16 avx2")
    assert told["governor"] == "performance, powersave"
    assert told["mitigations"] == {"spectre_v2": "Mitigation: Retpolines"}
    assert [each["gibibytes"] for each in told["numa"]] == [64, 64]


def test_unreadable_values_have_a_reason_and_no_guess(
    tmp_path: Path,
) -> None:
    written(tmp_path, {"proc/meminfo": f"MemTotal: {24 << 20} kB\n"})

    proc, sys = tmp_path / "proc", tmp_path / "sys"
    told: dict[str, Any] = {
        "processors": processors(proc, sys),
        "maker": node_parts.maker(sys),
        "firmware": node_parts.firmware(sys),
        "network": network(sys),
        "pci": pci(sys),
        "memory": memory(proc, sys),
    }

    assert told["memory"].pop("gibibytes") == 24
    assert told["processors"].pop("features") == "none of those that are looked for"
    rows = flattened(told)
    assert [(part, value) for part, value in rows if not value.startswith(UNREAD)] == []
    assert all(len(value) > len(UNREAD) for _, value in rows)


def test_an_unreadable_file_or_one_without_a_number_is_reported(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    written(tmp_path, {"word": "many", "empty": "\n", "choice": "always [madvise] never\n", "count": "-3\n"})

    assert text(tmp_path / "folder") == f"{UNREAD}{tmp_path}/folder: Is a directory"
    assert number(tmp_path / "word").__str__().startswith(UNREAD)
    assert text(tmp_path / "empty").startswith(UNREAD)
    assert (chosen(tmp_path / "choice"), number(tmp_path / "count")) == ("madvise", -3)


def test_links_have_driver_firmware_and_pcie_link(tmp_path: Path) -> None:
    device = "sys/bus/pci/devices/0000:01:00.0"
    written(
        tmp_path,
        {
            f"{device}/class": "0x020700\n",
            f"{device}/vendor": "0x15b3\n",
            f"{device}/device": "0x1021\n",
            f"{device}/numa_node": "1\n",
            f"{device}/max_link_speed": "32.0 GT/s PCIe\n",
            f"{device}/max_link_width": "16\n",
            f"{device}/current_link_speed": "2.5 GT/s PCIe\n",
            f"{device}/current_link_width": "8\n",
            "sys/class/infiniband/mlx5_0/fw_ver": "28.39.1002\n",
            "sys/class/infiniband/mlx5_0/board_id": "MT_0000000838\n",
            "sys/class/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)\n",
            "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
            "sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand\n",
        },
    )
    (tmp_path / "sys/class/infiniband/mlx5_0/device").symlink_to(tmp_path / device)

    ports, controllers = network(tmp_path / "sys"), pci(tmp_path / "sys")

    assert not isinstance(ports, str) and not isinstance(controllers, str)
    (port,), (controller,) = ports, controllers

    assert (port["name"], port["rate"], port["firmware"]) == ("mlx5_0 port 1", "400 Gb/sec (4X NDR)", "28.39.1002")
    assert (port["pcie"], port["pcie_width_now"]) == ("32.0 GT/s PCIe ×16", "8")
    assert (controller["kind"], controller["model"], controller["numa_node"]) == ("network", "0x15b3:0x1021", "1")


SECRETS = {
    "RAY_AUTH_TOKEN": "hush-1",
    "NCCL_API_KEY": "hush-2",
    "RAY_SECRET": "hush-3",
    **{
        f"NCCL_MY_{word}_OF": "hush-of-a-kind"
        for word in (
            *(
                "PASSPHRASE",
                "PASSWD",
                "PASS",
                "PWD",
                "AUTH",
                "AUTHORIZATION",
                "LICENSE",
                "LICENCE",
                "CREDENTIALS",
                "PRIVATE",
            ),
            *("APIKEY", "COOKIE", "SESSION", "BEARER", "SIGNATURE", "CERT", "JWT", "pin"),
        )
    },
    "HOROVOD_PASSWORD": "hush-4",
    "TORCH_CREDENTIALS": "hush-5",
    "CUDA_MIRROR": "https://me:hush-6@mirror.example/x",
    "AWS_SECRET_ACCESS_KEY": "hush-7",
    "HOME": "hush-8",
    "nccl_debug": "hush-9",
}


def test_no_secret_of_the_environment_is_recorded() -> None:
    told = node_parts.variables(
        {**SECRETS, "NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "8", "RAY_RAYLET_PID": "77", "RAY_TMPDIR": "/tmp/a"}
    )

    assert "hush" not in json.dumps(told)
    assert told["NCCL_DEBUG"] == "INFO" and told["OMP_NUM_THREADS"] == "8"
    assert told["RAY_AUTH_TOKEN"] == "set; a secret by its name, never recorded"
    assert (
        "AWS_SECRET_ACCESS_KEY" not in told and "HOME" not in told and not {"RAY_RAYLET_PID", "RAY_TMPDIR"} & set(told)
    )


def test_variables_that_kuberay_sets_by_role_are_left_out() -> None:
    by_role = {
        "RAY_USAGE_STATS_KUBERAY_IN_USE": "1",
        "RAY_USAGE_STATS_EXTRA_TAGS": "kuberay_version=v1.5.1;kuberay_crd=RayJob",
        "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE": "1",
        "RAY_timeout_ms_task_wait_for_death_info": "0",
        "RAY_gcs_server_request_timeout_seconds": "5",
        "RAY_enable_autoscaler_v2": "1",
        "RAY_TLS_SERVER_CERT": "/tmp/aiperf-a/node.crt",
    }

    assert node_parts.variables({**by_role, "RAY_memory_monitor_refresh_ms": "0"}) == {
        "RAY_memory_monitor_refresh_ms": "0"
    }


def test_a_containers_image_is_from_its_environment(tmp_path: Path) -> None:
    written(tmp_path, {"run/.containerenv": 'engine="podman-4.3"\n'})

    named = node_parts.container_of({"AIPERF_IMAGE": "ours:2"}, tmp_path)
    unnamed = node_parts.container_of({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path)

    assert named == {"runtime": "podman", "image": "ours:2"}
    assert unnamed["runtime"] == "kubernetes" and unnamed["image"].startswith(UNREAD)


def test_this_host_has_equal_descriptions_without_its_name(tmp_path: Path) -> None:
    folders = {"run": tmp_path}

    one, other = describe_node(folders, {}), describe_node(folders, {})

    assert set(one) == PARTS
    assert hash_of(one) == hash_of(other) and len(hash_of(one)) == 64
    assert hash_of(json.loads(json.dumps(one))) == hash_of(one)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert boot not in json.dumps(one)


def test_differing_nodes_are_named_with_both_values() -> None:
    nodes = {f"n{number}": {"driver": "560.35", "kernel": {"release": "6.1"}} for number in range(64)}
    nodes |= {f"n{number}": {"driver": "550.54", "kernel": {"release": "6.1"}} for number in (7, 8)}
    nodes["n9"] = {"kernel": {"release": "6.1"}}

    found = differences(nodes)

    assert in_words(found, len(nodes)) == ["3 of 64 nodes differ: driver 550.54 on n7 n8, not there on n9, else 560.35"]


def test_nodes_that_are_alike_differ_in_nothing() -> None:
    assert differences({"a": {"x": 1}, "b": {"x": 1}}) == ()
    assert differences({}) == ()


def test_named_items_are_compared_by_name_not_by_position() -> None:
    one = {"network": [{"name": "eth0", "mtu": 1500}, {"name": "eth1", "mtu": 9000}]}
    other = {"network": [{"name": "eth1", "mtu": 9000}, {"name": "eth0", "mtu": 1400}]}

    assert [each.part for each in differences({"a": one, "b": other})] == ["network.eth0.mtu"]


def changed_once(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, tree) for each value of a description, with another value there."""
    if isinstance(value, dict):
        for key in value.keys() - {"name"}:
            yield from ((at, {**value, key: other}) for at, other in changed_once(value[key], f"{name}.{key}"))
    elif isinstance(value, list) and value:
        for index, each in enumerate(value):
            others = changed_once(each, f"{name}.{each['name']}")
            yield from ((at, [*value[:index], other, *value[index + 1 :]]) for at, other in others)
    else:
        yield name.lstrip("."), "another value"


def test_hardware_is_maker_processors_and_devices_alone(tmp_path: Path) -> None:
    """Memory, kernel settings, disks and software are no hardware."""
    device = {"kind": "network", "model": "0x15b3:0x1021", "driver": "mlx5_core", "pcie": "32.0 GT/s ×16"}
    disk = {"name": "0000:02:00.0", "kind": "storage", "model": "0x1af4:0x1042"}
    described = describe_node({"run": tmp_path}, {"OMP_NUM_THREADS": "1"})
    described["pci"] = [{"name": "0000:01:00.0", **device}, disk]
    described["accelerators"] = {"devices": [{"name": "NVIDIA 0", "model": "H100", "driver": "550.54"}]}
    described["processors"]["numa"] = [{"name": "node0", "processors": "0-1", "gibibytes": 8}]

    changed = {name for name, other in changed_once(described) if hardware(other) != hardware(described)}
    processor = {f"processors.{each}" for each in ("model", "sockets", "cores", "hardware_threads")}
    maker = {f"maker.{each}" for each in ("sys_vendor", "product_name", "product_version", "board_name")}
    # a controller of disks that becomes another kind is a device
    pci = {"pci.0000:01:00.0.kind", "pci.0000:01:00.0.model", "pci.0000:02:00.0.kind"}
    assert changed == processor | maker | pci | {"accelerators.devices.NVIDIA 0.model"}
