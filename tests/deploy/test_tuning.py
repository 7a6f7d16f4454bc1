"""The preflight, os_tuning and logs on lab hosts: tests that cannot run on the tests' own machine.

Kernel settings outside of the network are the machine's own, so they are restored at the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.host import Shape
from tests.deploy.lab import Lab
from tests.deploy.playbooks import Recap, play
from tests.deploy.wheels import version, wheelhouse

pytestmark = [pytest.mark.soak, pytest.mark.serial]
HOSTS = ("n1", "n2", "n3")
KERNEL = ("vm/swappiness", "vm/dirty_background_ratio", "vm/dirty_ratio", "vm/max_map_count")
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage")
# A Python whose clock is 30 seconds ahead.
AHEAD = r"""import time; now = time.time; time.time = lambda: now() + 30"""


@pytest.fixture(scope="module")
def lab(make_lab: Callable[..., Lab]) -> Lab:
    """Three empty hosts with a blank disk each."""
    lab: Lab = make_lab("tuning", len(HOSTS), Shape(blank="512M"))
    wheelhouse(lab)
    return lab


@pytest.fixture(scope="module")
def kernel() -> Iterator[None]:
    """The kernel settings of this machine, restored at the end."""
    before = {path: path.read_text() for path in (Path("/proc/sys", name) for name in KERNEL)}
    chosen = {
        path: path.read_text().partition("[")[2].partition("]")[0]
        for path in (HUGE_PAGES / "enabled", HUGE_PAGES / "defrag")
        if path.exists()
    }
    yield
    for path, value in {**before, **chosen}.items():
        path.write_text(value)


def write(lab: Lab, variables: Mapping[str, Any], of_n2: Mapping[str, Any] | None = None) -> None:
    lab.write_inventory({"brokers": HOSTS}, {"broker_version": version(), **variables}, {"n2": of_n2 or {}})


def playbook(lab: Lab, *roles: str) -> str:
    """A playbook with only these roles."""
    path = lab.directory / "roles.yml"
    path.write_text(json.dumps([{"hosts": "all", "become": True, "gather_facts": False, "roles": list(roles)}]))
    return str(path)


def files(lab: Lab) -> dict[str, tuple[int, int]]:
    """The files of the hosts' own layers in the directories of configurations, programs and data."""
    found = {}
    for host in lab.hosts:
        layer = host.directory / "up"
        for top in ("etc", "opt", "srv", "usr"):
            for path in (layer / top).rglob("*"):
                if path.is_file() and not path.is_symlink():
                    found[str(path)] = (path.stat().st_size, path.stat().st_mtime_ns)
    return found


def refused(lab: Lab) -> str:
    """Run site.yml, check that it is refused before any host is changed, and return its output."""
    before = files(lab)
    recap = play(lab, "site.yml", check=False)
    assert recap.code != 0, recap.output[-4000:]
    assert recap.changed == 0
    assert files(lab) == before
    return recap.output


def says(output: str, *parts: str) -> bool:
    return any(all(part in line for part in parts) for line in output.splitlines())


def test_a_firewall_between_hosts_is_found(lab: Lab) -> None:
    """If this fails, a cluster is set up that cannot elect a leader, and the reason is found hours later."""
    write(lab, {})
    lab.ssh("n2", "sudo nft 'add table inet wall; add chain inet wall in { type filter hook input priority 0; }'")
    lab.ssh("n2", "sudo nft add rule inet wall in tcp dport 9094 drop")
    try:
        output = refused(lab)
    finally:
        lab.ssh("n2", "sudo nft delete table inet wall")
    assert says(output, "[reach]", "No host can reach the listener internal of n2", "n1 and n3", "firewall"), output[
        -4000:
    ]
    assert not says(output, "[reach]", "n1 at"), output[-4000:]


def test_a_cut_cable_is_found(lab: Lab) -> None:
    """One direction between two hosts: only the pair is named."""
    write(lab, {})
    lab.cut("n3", "n1", oneway=True)
    try:
        output = refused(lab)
    finally:
        lab.heal()
    assert says(output, "[reach]", "n3 cannot reach", "of n1") or says(output, "[reach]", "n1 cannot reach", "of n3")
    assert not says(output, "[reach]", "of n2"), output[-4000:]


def test_a_host_that_is_down_is_reported_with_the_rest(lab: Lab) -> None:
    """If this fails, the other hosts are changed without it, or their faults are only found when it is back."""
    write(lab, {}, {"broker_log_dirs": ["/var/lib/broker-cy"]})
    lab.kill("n3")
    try:
        output = refused(lab)
    finally:
        lab.start("n3")
    assert says(output, "[answers]", "n3: cannot be reached", "--limit"), output[-4000:]
    assert says(output, "[log_directories]", "n2: /var/lib/broker-cy"), output[-4000:]


def test_everything_else_that_only_hosts_know_is_found(lab: Lab) -> None:
    """A port in use, a clock that is ahead, logs on the system disk, an unknown name: all in one report."""
    write(
        lab,
        {},
        {
            "broker_log_dirs": ["/var/lib/broker-cy"],
            "broker_address": "broker2.invalid",
            "preflight_python": "/tmp/ahead",
        },
    )
    script = f"#!/usr/bin/python3\nimport sys\n{AHEAD}\nsys.argv.pop(0)\nsys.argv.pop(0)\nexec(sys.argv[0])\n"
    lab.ssh("n2", f"cat >/tmp/ahead <<'END'\n{script}END\nchmod 755 /tmp/ahead")
    lab.ssh("n1", "sudo systemd-run --unit taken python3 -m http.server 9092")
    lab.ssh("n1", "until ss -Hltn 'sport = :9092' | grep -q LISTEN; do sleep 0.1; done")
    try:
        output = refused(lab)
    finally:
        lab.ssh("n1", "sudo systemctl stop taken")
        lab.ssh("n2", "rm /tmp/ahead")
    assert says(output, "[log_directories]", "n2: /var/lib/broker-cy is on the file system of /"), output[-4000:]
    assert says(output, "[ports]", "n1: python3 (process", "taken.service", "9092"), output[-4000:]
    assert says(output, "[names]", "broker2.invalid of n2", "n1"), output[-4000:]
    assert says(output, "[clock_difference]", "n2 is 30", "ahead"), output[-4000:]


def test_a_disk_that_is_not_blank_is_refused(lab: Lab) -> None:
    """Existing data is not formatted: the preflight refuses it, and so does the role itself without the preflight."""
    write(lab, {"os_tuning_disks": [{"device": "/dev/vdb", "path": "/srv/logs"}]})
    lab.ssh("n2", "sudo mkfs.ext4 -q /dev/vdb")
    output = refused(lab)
    assert says(output, "[disks]", "n2", "/dev/vdb", "ext4", "wipefs"), output[-4000:]
    alone = play(lab, playbook(lab, "os_tuning"), "--limit", "n2", check=False)
    assert alone.code != 0
    assert alone.changed == 0
    assert "wipefs --all /dev/vdb" in " ".join(alone.output.split())
    assert lab.ssh("n2", "sudo blkid -o value -s TYPE /dev/vdb").stdout.strip() == "ext4"
    lab.ssh("n2", "sudo wipefs -q --all /dev/vdb")


@pytest.fixture(scope="module")
def tuned(lab: Lab, kernel: None) -> Recap:
    """All parts of os_tuning and logs on all hosts, except for parts that a container cannot have."""
    write(
        lab,
        {
            "os_tuning_memory": True,
            "os_tuning_huge_pages": True,
            "os_tuning_read_ahead": True,
            "os_tuning_skip_unavailable": True,
            "os_tuning_disks": [{"device": "/dev/vdb", "path": "/srv/logs"}],
        },
    )
    checked = play(lab, playbook(lab, "os_tuning", "logs"), "--check", "--diff")
    assert checked.failed == 0
    return play(lab, playbook(lab, "os_tuning", "logs"))


def test_hosts_are_tuned(lab: Lab, tuned: Recap) -> None:
    """The values are in effect now, and in files for the next boot."""
    assert tuned.failed == 0
    wanted = {
        "vm.swappiness": "1",
        "vm.max_map_count": "262144",
        "net.ipv4.tcp_retries2": "8",
        "net.core.somaxconn": "4096",
    }
    for host in HOSTS:
        for name, value in wanted.items():
            assert lab.ssh(host, f"/sbin/sysctl -n {name}").stdout.strip() == value
            assert f"{name} = {value}" in lab.ssh(host, "cat /etc/sysctl.d/90-broker-cy.conf").stdout
        assert "[madvise]" in lab.ssh(host, f"cat {HUGE_PAGES}/enabled").stdout
        assert "madvise" in lab.ssh(host, "cat /etc/tmpfiles.d/broker-cy-huge-pages.conf").stdout
        assert "broker-cy hard nofile" in lab.ssh(host, "cat /etc/security/limits.d/90-broker-cy.conf").stdout
        assert "SystemMaxUse=4G" in lab.ssh(host, "cat /etc/systemd/journald.conf.d/90-broker-cy.conf").stdout
        assert lab.ssh(host, "systemctl is-active systemd-journald").stdout.strip() == "active"
        lab.ssh(host, "sudo logrotate --debug /etc/logrotate.d/broker-cy")


def test_disks_have_xfs_by_their_identifiers(lab: Lab, tuned: Recap) -> None:
    for host in HOSTS:
        shown = lab.ssh(host, "findmnt -no FSTYPE,OPTIONS /srv/logs").stdout
        assert shown.startswith("xfs")
        assert "noatime" in shown
        uuid = lab.ssh(host, "sudo blkid -o value -s UUID /dev/vdb").stdout.strip()
        assert f"UUID={uuid} /srv/logs xfs noatime," in lab.ssh(host, "cat /etc/fstab").stdout


def test_what_a_container_cannot_have_is_reported(lab: Lab, tuned: Recap) -> None:
    """A switch leaves these parts out; without the switch, the play stops before it changes anything."""
    assert "read-ahead of /srv/data/broker-cy" in " ".join(tuned.output.split())
    stopped = play(lab, playbook(lab, "os_tuning"), "-e", "os_tuning_skip_unavailable=false", check=False)
    assert stopped.code != 0
    assert stopped.changed == 0
    assert "does not let these be set: read-ahead of" in " ".join(stopped.output.split())


def test_a_second_run_changes_nothing(lab: Lab, tuned: Recap) -> None:
    again = play(lab, playbook(lab, "os_tuning", "logs"), "--diff")
    assert (again.changed, again.failed) == (0, 0), again.output[-4000:]
    checked = play(lab, playbook(lab, "os_tuning", "logs"), "--check", "--diff")
    assert (checked.changed, checked.failed) == (0, 0), checked.output[-4000:]


def test_logs_of_a_host_are_fetched(lab: Lab, tuned: Recap) -> None:
    """A failed play fetches the logs to the control node, and an unreachable host does not hide the failure's
    reason.
    """
    path = lab.directory / "fetch.yml"
    fetch = {"ansible.builtin.include_role": {"name": "logs", "tasks_from": "fetch"}}
    path.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [fetch]}]))
    lab.ssh("n1", "sudo systemd-run --wait --unit broker-cy echo the last words")
    lab.kill("n3")
    try:
        play(lab, str(path), check=False)
    finally:
        lab.start("n3")
    kept = lab.inventory.parent / "failed"
    assert "the last words" in (kept / "n1.log").read_text()
    assert (kept / "n1.log").stat().st_mode & 0o777 == 0o600
    assert (kept / "n3.log").exists()
