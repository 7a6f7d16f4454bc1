"""Several disks of a host, on lab hosts: one is added to running brokers, one of several dies and is replaced. The
tests are steps on the same hosts.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.base import LabError, do
from tests.deploy.cluster import ask
from tests.deploy.deployed import Deployed
from tests.deploy.host import Shape
from tests.deploy.lab import Lab
from tests.deploy.load import under_load
from tests.deploy.playbooks import Recap
from tests.deploy.wheels import wheelhouse
from tests.support.wait import until

pytestmark = [pytest.mark.soak, pytest.mark.serial, pytest.mark.timeout(1800)]
NAMES = ["n1", "n2", "n3"]
FIRST, MORE = "/srv/data/broker-cy", "/srv/more/broker-cy"
WAIT_S, POLL_S = 120.0, 1.0
# FS_IOC_SHUTDOWN of Linux without a flush of the journal: from then on, all I/O fails.
DEAD = """import fcntl, os
fcntl.ioctl(os.open("/srv/more", os.O_RDONLY), 0x8004587D, b"\\2\\0\\0\\0")"""


@pytest.fixture(scope="module")
def cluster(make_lab: Callable[..., Lab]) -> Deployed:
    """Three running brokers with one disk, on hosts with two blank ones; each has a replica of the topic."""
    # Larger than the first disk: new replicas go to the disk with the most free space.
    lab = make_lab("disks", len(NAMES), Shape(blank="4G", blanks=2))
    wheelhouse(lab)
    deployed = Deployed(lab)
    deployed.set_up(NAMES)
    ask(lab, "n1", "topics", "create", "orders", "-p", "6")
    return deployed


def write_disks(cluster: Deployed, n2: str = "/dev/vdb") -> None:
    """An inventory with two directories for each broker, and a device for the second one of n2."""
    disks = {name: {"os_tuning_disks": [{"device": "/dev/vdb", "path": "/srv/more"}]} for name in NAMES}
    disks["n2"]["os_tuning_disks"][0]["device"] = n2
    cluster.write_inventory(NAMES, disks, broker_log_dirs=[FIRST, MORE])


def directories(cluster: Deployed, broker: int) -> dict[str, dict[str, Any]]:
    """The directories of a broker by their paths."""
    return {each["path"]: each for each in cluster.ask("log-dirs", "--broker", str(broker))}


def starts(cluster: Deployed) -> list[str]:
    return [cluster.started(name) for name in NAMES]


def replace(cluster: Deployed, *options: str, check: bool = True, path: str = "/srv/more/", host: str = "n2") -> Recap:
    """Replace the second disk of n2."""
    return cluster.play("replace_disk", *options, check=check, broker_replace_disk=host, broker_replace_path=path)


def refused(cluster: Deployed, **where: str) -> str:
    """The output, as one line, of a replacement that is refused before it changes anything."""
    played = replace(cluster, check=False, **where)
    assert played.code != 0, played.output[-4000:]
    assert played.changed == 0
    return " ".join(played.output.split())


def test_disk_is_added_to_running_brokers(cluster: Deployed, tmp_path: Path) -> None:
    """If this fails, a host gets no further disk without a loss of service, or the disk stays unused."""
    write_disks(cluster)
    before = starts(cluster)
    assert cluster.play("site", "--check", "--diff").failed == 0
    assert cluster.lab.ssh("n1", "sudo blkid /dev/vdb", check=False).stdout == ""
    with under_load(cluster.lab, cluster.config, cluster.bootstrap, tmp_path) as verdict:
        cluster.play("site", what="a second disk for three running brokers")
    print(verdict)
    verdict.check()
    assert all(one != other for one, other in zip(before, starts(cluster), strict=True))
    ask(cluster.lab, "n1", "topics", "create", "later", "-p", "6")
    for number, name in enumerate(NAMES, 1):
        uuid = cluster.lab.ssh(name, "sudo blkid -o value -s UUID /dev/vdb").stdout.strip()
        assert f"UUID={uuid} /srv/more xfs " in cluster.lab.ssh(name, "cat /etc/fstab").stdout
        found = directories(cluster, number)
        assert sorted(found) == [FIRST, MORE]
        assert all(each["error"] == "" and each["replicas"] for each in found.values()), found
    again = cluster.play("site", "--diff", what="the second run with two disks")
    assert (again.changed, again.failed) == (0, 0), again.output[-4000:]


def test_file_system_grows_with_its_device(cluster: Deployed) -> None:
    """If this fails, a larger volume has to be grown by hand, or a broker is restarted for it."""
    before, total = starts(cluster), directories(cluster, 1)[MORE]["total_bytes"]
    image = cluster.lab.host("n1").directory / "blank1.img"
    do("truncate", "-s", "6G", image)
    (device,) = do("losetup", "--associated", image, "--noheadings", "--output", "NAME").split()
    do("losetup", "--set-capacity", device)
    assert cluster.play("site", "--check", "--diff").failed == 0
    assert directories(cluster, 1)[MORE]["total_bytes"] == total
    cluster.play("site", what="a disk that became larger")
    assert directories(cluster, 1)[MORE]["total_bytes"] > total + (1 << 30)
    assert starts(cluster) == before
    again = cluster.play("site")
    assert (again.changed, again.failed) == (0, 0), again.output[-4000:]


def test_healthy_disk_is_not_replaced(cluster: Deployed) -> None:
    """If this fails, a wrong host or path in a command ends with the loss of replicas."""
    before = starts(cluster)
    played = replace(cluster)
    assert "n2 serves /srv/more/broker-cy: nothing is replaced." in played.output
    assert played.changed == 0
    assert "has the metadata log, without which the broker cannot run" in refused(cluster, path="/srv/data")
    assert "no directory of the broker is below /srv/mor." in refused(cluster, path="/srv/mor")
    assert "The brokers are n1, n2, n3" in refused(cluster, host="n4")
    assert starts(cluster) == before


def test_dead_disk_leaves_the_broker_in_service(cluster: Deployed) -> None:
    """If this fails, one of several disks takes the whole host out of service, or its failure is not reported."""
    before = starts(cluster)
    cluster.lab.ssh("n2", f"sudo python3 -c {shlex.quote(DEAD)}")
    until(
        lambda: directories(cluster, 2)[MORE]["error"] == "KAFKA_STORAGE_ERROR",
        "a directory that is offline",
        WAIT_S,
        POLL_S,
        tolerate=(LabError,),
    )
    assert starts(cluster) == before
    assert directories(cluster, 2)[FIRST]["error"] == ""
    shown = " ".join(cluster.play("health", check=False).output.split())
    assert "/srv/more/broker-cy: Input/output error" in shown
    shown = " ".join(cluster.play("site", check=False).output.split())
    assert "does not answer (mounted at /srv/more, Input/output error): replace the disk" in shown
    # A crash must not take the other disk out of service.
    cluster.lab.ssh("n2", "sudo systemctl restart broker-cy", timeout_s=WAIT_S)
    until(lambda: FIRST in directories(cluster, 2), "a broker without a disk", WAIT_S, POLL_S, tolerate=(LabError,))


def test_wrong_device_is_refused(cluster: Deployed) -> None:
    """If this fails, the data of another program is destroyed, or a disk is replaced by itself."""
    before = starts(cluster)
    assert "which does not answer" in refused(cluster)
    write_disks(cluster, "/dev/vdz")
    assert "os_tuning_disks names /dev/vdz for /srv/more: No such file" in refused(cluster)
    write_disks(cluster, "/dev/vdc")
    cluster.lab.ssh("n2", "sudo mkfs.ext4 -q /dev/vdc")
    assert "/dev/vdc is not blank (TYPE ext4" in refused(cluster)
    cluster.lab.ssh("n2", "sudo mkfs.xfs -q -f /dev/vdc && sudo mkdir /srv/other && sudo mount /dev/vdc /srv/other")
    assert "/dev/vdc is mounted at /srv/other, and os_tuning_disks says /srv/more" in refused(cluster)
    cluster.lab.ssh("n2", "sudo umount /srv/other && sudo wipefs -q --all /dev/vdc")
    assert starts(cluster) == before


def test_dead_disk_is_replaced(cluster: Deployed, tmp_path: Path) -> None:
    """If this fails, a failed disk needs work by hand, another broker is restarted, or clients get errors."""
    write_disks(cluster, "/dev/vdc")
    before = starts(cluster)
    assert replace(cluster, "--check", "--diff").failed == 0
    assert cluster.lab.ssh("n2", "sudo blkid /dev/vdc", check=False).stdout == ""
    assert starts(cluster) == before
    with under_load(cluster.lab, cluster.config, cluster.bootstrap, tmp_path) as verdict:
        played = replace(cluster)
    print(verdict)
    verdict.check()
    # Ansible wraps long messages.
    shown = " ".join(played.output.split())
    assert "n2: all partitions are in sync." in shown
    assert "/srv/more/broker-cy has " in shown
    after = starts(cluster)
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False, True]
    found = directories(cluster, 2)
    assert found[MORE]["error"] == ""
    assert found[MORE]["replicas"]
    uuid = cluster.lab.ssh("n2", "sudo blkid -o value -s UUID /dev/vdc").stdout.strip()
    shown = cluster.lab.ssh("n2", "cat /etc/fstab; findmnt -no SOURCE /srv/more").stdout
    assert f"UUID={uuid} /srv/more xfs " in shown
    assert "/dev/vdc" in shown or "/dev/loop" in shown
    assert len([line for line in shown.splitlines() if " /srv/more " in line]) == 1
    assert "cluster: well" in cluster.play("health").output
    assert replace(cluster).changed == 0
    again = cluster.play("site")
    assert (again.changed, again.failed) == (0, 0), again.output[-4000:]
    assert starts(cluster) == after


def test_host_starts_without_a_missing_disk(cluster: Deployed) -> None:
    """If this fails, a disk that is missing after a restart of the host takes the others out of service, or the broker
    writes to the disk of the system.
    """
    # A container does not mount the devices of its fstab, as a host whose disk is missing.
    cluster.lab.stop("n2")
    cluster.lab.start("n2")
    until(
        lambda: directories(cluster, 2)[MORE]["error"] != "", "a broker without a disk", WAIT_S, POLL_S,
        tolerate=(LabError,),
    )  # fmt: skip
    assert directories(cluster, 2)[FIRST]["error"] == ""
    assert cluster.lab.ssh("n2", "sudo ls -A /srv/more").stdout == ""
    cluster.lab.ssh("n2", "sudo mount /srv/more && sudo systemctl restart broker-cy", timeout_s=WAIT_S)
    until(
        lambda: "cluster: well" in cluster.play("health", check=False).output, "a cluster that is well", WAIT_S, POLL_S
    )
