"""The hosts of other tests are isolated: separate processes, reached by the bridge alone."""

import subprocess
from pathlib import Path

import pytest

from tests.rigs.namespaces import HostsRig, hosts, missing

pytestmark = pytest.mark.skipif(missing() is not None, reason=f"no hosts: {missing()}")


def output_of(rig: HostsRig, name: str, script: str) -> str:
    return subprocess.run(
        [*rig.entering(name), "bash", "-c", script], capture_output=True, text=True, check=True
    ).stdout


def reaches(rig: HostsRig, name: str, other: str) -> bool:
    script = f"timeout 2 bash -c 'exec 3<>/dev/tcp/{rig.address[other]}/9' 2>&1 || true"
    return "refused" in output_of(rig, name, script)


def test_each_host_is_isolated_and_its_link_can_be_cut(tmp_path: Path) -> None:
    with hosts(tmp_path, 2) as rig:
        one, two = rig.names
        output_of(rig, one, f"touch /tmp/mine {tmp_path}/shared")

        assert output_of(rig, one, "hostname").strip() == one
        assert output_of(rig, one, "ls /tmp/mine")
        assert "mine" not in output_of(rig, two, f"ls /tmp {tmp_path}/shared").split()
        assert reaches(rig, one, two)
        rig.cut(two)
        assert not reaches(rig, one, two)
        rig.join(two)
        assert reaches(rig, one, two)
        sleeper = rig.start(two, "sleep", "600", output=tmp_path / "out", directory=tmp_path)
        rig.off(two)
        sleeper.wait(10)
        rig.on(two)
        assert output_of(rig, two, "hostname").strip() == two
