"""Hosts over ssh as values: the list, the command lines, and when a lost host is reached for again."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.__main__ import main
from aiperf.drive.ray.cluster.invited_hosts import Invitations, is_this_host
from aiperf.drive.ray.cluster.join_node import ParentConnection
from cluster.hosts import FAULTS, REACHED, HostsConf, fault_of
from cluster.place import HeadPlace, InvitedPlace

TEXT = st.text(st.characters(blacklist_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("conf", "told"),
    [
        (HostsConf(hosts=["n1", "me@n1"]), r"found \['n1'\] more than once"),
        (HostsConf(hosts=["n1"], fewest_hosts=2), "between 1 and the number of hosts, 1, but found 2"),
    ],
)
def test_lists_that_make_no_sense_are_refused(conf: HostsConf, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        conf.check()


def test_the_place_is_a_head_here_and_the_hosts_that_join_it() -> None:
    place = HostsConf(hosts=["n1", "n2"], fewest_hosts=1, address="10.0.0.9").place({})

    assert isinstance(place, InvitedPlace)
    assert place.hosts == ("n1", "n2")
    assert place.head == HeadPlace(2, 1, 300.0, "10.0.0.9")


@given(TEXT, TEXT, TEXT)
def test_what_is_run_on_a_host_reads_there_as_it_is_meant(folder: str, python: str, directory: str) -> None:
    """Two shells read it: the user's own there, and the sh that it starts."""
    conf = HostsConf(hosts=["n1"], python=python, directory=str(Path("/") / directory))

    *_, host, command = conf.join_command("n1", Path("/runs") / folder)
    read = shlex.split(shlex.split(command)[3].splitlines()[-1])

    assert host == "n1"
    assert shlex.split(command)[:3] == ["exec", "sh", "-c"]
    assert shlex.split(shlex.split(command)[3].splitlines()[0])[:2] == ["cd", str(Path("/") / directory)]
    assert read[:6] == ["exec", python, "-m", "aiperf", "join", str(Path("/runs") / folder)]
    assert "--tied" in read


def test_a_users_ssh_arguments_precede_and_override_ours() -> None:
    words = HostsConf(hosts=["n1"], ssh=["-p", "2222", "-o", "ConnectTimeout=99"]).join_command("n1", Path("/runs/1"))

    assert words.index("ConnectTimeout=99") < words.index("ConnectTimeout=10")
    assert "BatchMode=yes" in words
    assert words[-3:-1] == ["--", "n1"]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, 0),
        ({"directory": "/none"}, 41),
        ({"setup": ["false"]}, 42),
        ({"python": "/none/python"}, 43),
        ({"python": "false"}, 44),
    ],
)
def test_the_check_of_a_host_reports_what_is_missing(tmp_path: Path, change: dict[str, object], status: int) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\ntest ! -e broken\n")
    python.chmod(0o700)
    usual = {"hosts": ["n1"], "python": str(python), "directory": str(tmp_path)}
    conf = HostsConf(**{**usual, **change})  # type: ignore[arg-type]

    done = subprocess.run(
        ["sh", "-c", conf.check_command("n1", tmp_path)[-1]], capture_output=True, text=True, check=False
    )

    assert done.returncode == status
    assert (REACHED in done.stdout) == (status == 0)
    assert status == 0 or FAULTS[status] in fault_of(done.returncode, done.stderr.splitlines())


def test_a_host_without_the_runs_folder_is_distinguished(tmp_path: Path) -> None:
    conf = HostsConf(hosts=["n1"], python="true")

    done = subprocess.run(["sh", "-c", conf.check_command("n1", tmp_path / "private")[-1]], check=False)

    assert done.returncode == 45
    assert "runs= must lie on a file system that all hosts share" in fault_of(45, [])


def offers_ssh(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Stand-in for ssh at the border of this process."""
    (folder / "bin").mkdir()
    (folder / "bin" / "ssh").write_text(f"#!{shutil.which('sh', path=os.defpath)}\n{script}\n")
    (folder / "bin" / "ssh").chmod(0o700)
    monkeypatch.setenv("PATH", str(folder / "bin"))
    monkeypatch.chdir(folder)


def test_unreachable_hosts_are_all_named_with_sshs_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    offers_ssh(
        tmp_path,
        monkeypatch,
        """case "$*" in
  *" n2.invalid "*) echo "root@n2.invalid: Permission denied (publickey,password)." >&2; exit 255;;
  *" n3.invalid "*) echo "sh: 1: python: not found" >&2; exit 43;;
  *) echo "aiperf: this host is ready";;
esac""",
    )

    assert main(["+cluster=hosts", "cluster.hosts=[n1.invalid,n2.invalid,n3.invalid]"]) == 2

    told = capsys.readouterr().err
    assert "2 of 3 could not join" in told
    assert "n2.invalid: ssh failed: root@n2.invalid: Permission denied (publickey,password)." in told
    assert f"n3.invalid: it {FAULTS[43]} (sh: 1: python: not found)" in told
    assert "n1.invalid:" not in told
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_list_without_hosts_is_refused_before_anything_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["+cluster=hosts"]) == 2
    assert main(["+cluster=hosts", "cluster.hosts=[a b]", "dry_run=true"]) == 2

    assert "cluster.hosts has at least 1 entry" in capsys.readouterr().err


def test_what_would_be_run_is_shown_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    offers_ssh(tmp_path, monkeypatch, "echo reached > reached")

    assert main(["+cluster=hosts", "cluster.hosts=[n1,n2]", "cluster.submit=false"]) == 0

    said = capsys.readouterr().out
    assert [line.split()[0] for line in said.splitlines() if line.startswith("ssh")] == ["ssh"] * 4
    assert "-m aiperf join" in said
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "reached").exists()


def test_a_host_that_is_not_steady_is_given_up(tmp_path: Path) -> None:
    place = replace(HostsConf(hosts=["n1"], again_seconds=5.0).place({}), join_command=lambda host, folder: ["false"])
    log = tmp_path / "logs" / "n1.log"

    with Invitations(tmp_path, place, ["n1"]).kept():
        while "is given up" not in (log.read_text() if log.exists() else ""):
            time.sleep(0.1)

    assert log.read_text().count("reached for") == 1, "the next one would come after the 5 s"


def test_this_machine_is_known_by_its_names() -> None:
    assert is_this_host("localhost")
    assert is_this_host(f"me@{socket.gethostname()}")
    assert not is_this_host("n1.invalid")


def test_a_tie_is_cut_when_the_other_end_goes_however_it_does() -> None:
    reading, writing = os.pipe()
    tie = ParentConnection(reading)

    assert not tie.is_cut()
    os.write(writing, b"still here")
    assert not tie.is_cut()
    os.close(writing)
    assert tie.is_cut()
    assert tie.is_cut()
    os.close(reading)
    assert not ParentConnection(None).is_cut()
