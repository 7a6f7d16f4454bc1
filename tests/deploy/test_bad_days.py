"""The instructions of docs/deploy-bad-days.md, followed on lab hosts: a full disk, a lost quorum, a dead disk, expired
certificates. The tests are steps on the same hosts; each step ends with a healthy cluster.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.deploy.base import LabError, do
from tests.deploy.cluster import COMMAND, ask
from tests.deploy.deployed import Deployed
from tests.deploy.lab import Lab
from tests.deploy.wheels import wheelhouse
from tests.support.wait import until

pytestmark = [pytest.mark.soak, pytest.mark.serial, pytest.mark.timeout(1800)]
NAMES = ["n1", "n2", "n3"]
RECOVERY_S, POLL_S = 120.0, 1.0
MIB = 1 << 20
# Bytes that a test leaves free on the disk that it fills.
LEFT_MIB = 64
CLI = f"sudo {COMMAND} {{words}} --cluster local --clusters-file /etc/broker-cy/clusters.toml"

# Linux's FS_IOC_SHUTDOWN (ext4 and XFS), without a flush of the journal: after it, all I/O fails.
DEAD = """import fcntl, os
fcntl.ioctl(os.open("/srv/data", os.O_RDONLY), 0x8004587D, b"\\2\\0\\0\\0")"""


@pytest.fixture(scope="module")
def cluster(make_lab: Callable[..., Lab]) -> Deployed:
    """Three running hosts, with a topic that has a replica on each."""
    lab = make_lab("baddays", len(NAMES))
    wheelhouse(lab)
    deployed = Deployed(lab)
    deployed.set_up(NAMES)
    ask(lab, "n1", "topics", "create", "orders", "-p", "3", "--set", f"segment.bytes={8 * MIB}")
    return deployed


def let_certificate_end(cluster: Deployed, host: str) -> None:
    """Replace a host's certificate with a copy that expired an hour ago."""
    path = "/etc/broker-cy/tls/node.pem"
    content = cluster.lab.ssh(host, f"sudo cat {path}").stdout.encode()
    own, *chain = x509.load_pem_x509_certificates(content)
    key = serialization.load_pem_private_key(content, None)
    (kept,) = [
        each for each in (cluster.lab.inventory.parent / "secrets" / "ca").iterdir() if b"PRIVATE" in each.read_bytes()
    ]
    authority = serialization.load_pem_private_key(kept.read_bytes(), None)
    assert isinstance(authority, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey)
    ended = datetime.now(UTC) - timedelta(hours=1)
    builder = x509.CertificateBuilder(own.issuer, own.subject, own.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(ended - timedelta(days=365)).not_valid_after(ended)
    for each in own.extensions:
        builder = builder.add_extension(each.value, each.critical)
    made = [builder.sign(authority, hashes.SHA256()), *chain]
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = key.private_bytes(*form) + b"".join(each.public_bytes(form[0]) for each in made)
    cluster.lab.ssh(host, f"echo {base64.b64encode(pem).decode()} | base64 -d | sudo tee {path} > /dev/null")


def produces(cluster: Deployed, host: str, mib: int = 1) -> bool:
    """Whether this many MiB of records, to all partitions, are acknowledged."""
    line = f"head -c {mib * MIB * 3 // 4} /dev/urandom | base64 -w 100000 | " + CLI.format(words="produce orders")
    return cluster.lab.ssh(host, line, check=False, timeout_s=120).returncode == 0


def is_well(cluster: Deployed, host: str) -> bool:
    """Whether `cluster health` on a host reports no problem."""
    done = cluster.lab.ssh(host, CLI.format(words="cluster health"), check=False)
    return done.returncode == 0 and "under replicated partitions 0" in " ".join(done.stdout.split())


def wait_until_well(cluster: Deployed, host: str) -> None:
    until(lambda: is_well(cluster, host), "a cluster that is well", RECOVERY_S, POLL_S, tolerate=(LabError,))
    assert "cluster: well" in cluster.play("health").output


def test_full_disk(cluster: Deployed) -> None:
    """A host with a full disk refuses producers, its broker keeps running, and deleting records with its own tools is
    enough to recover.
    """
    lab = cluster.lab
    assert produces(cluster, "n1", 96)
    before = cluster.started("n1")
    free = int(lab.ssh("n1", "df --output=avail -B1M /srv/data | tail -1").stdout)
    lab.ssh("n1", f"sudo fallocate -l {free - LEFT_MIB}M /srv/data/of-somebody-else")
    until(lambda: not produces(cluster, "n1", 48), "a disk that is full", RECOVERY_S, POLL_S)
    assert cluster.started("n1") == before
    shown = cluster.play("health", check=False)
    assert "/srv/data/broker-cy is" in shown.output
    assert "full" in shown.output
    assert "orders" in ask(lab, "n1", "log-dirs", "--broker", "1", "--replicas")
    ask(lab, "n1", "configs", "alter", "topic", "orders", "--set", f"retention.bytes={8 * MIB}", "--yes")
    ask(lab, "n1", "records", "delete", "orders", "--before", "end", "--yes")
    until(lambda: produces(cluster, "n1"), "records that are acknowledged again", RECOVERY_S, POLL_S)
    assert cluster.started("n1") == before, "the broker goes on by itself"
    lab.ssh("n1", "sudo rm /srv/data/of-somebody-else")
    wait_until_well(cluster, "n1")


def test_lost_quorum(cluster: Deployed) -> None:
    """Two of three hosts are lost, one of them with its disk. The host that comes back with its disk restores the
    quorum, and the other one is replaced.
    """
    lab = cluster.lab
    lab.kill("n2")
    lab.kill("n3")
    lab.wipe("n3")
    shown = cluster.play("health", check=False)
    assert shown.code & 4, "the exit code says that hosts cannot be reached"
    assert "n2: WRONG: cannot be reached" in shown.output
    assert not is_well(cluster, "n1")
    lab.start("n3")
    refused = cluster.play("replace_broker", check=False, broker_replace="n3", broker_gate_seconds=5)
    assert refused.code, "without a quorum, no vote is given away"
    assert not cluster.is_active("n3")
    lab.start("n2")
    until(lambda: produces(cluster, "n1"), "records that are acknowledged", RECOVERY_S, POLL_S)
    cluster.play("replace_broker", broker_replace="n3")
    assert cluster.voters() == [1, 2, 3]
    wait_until_well(cluster, "n1")


def test_dead_disk(cluster: Deployed) -> None:
    """Each access to a disk fails: the broker exits, the others serve, and the host comes back with a new disk."""
    lab = cluster.lab
    lab.ssh("n2", f"sudo python3 -c {shlex.quote(DEAD)}")
    until(lambda: not cluster.is_active("n2"), "the end of the broker without a disk", RECOVERY_S, POLL_S)
    assert produces(cluster, "n1")
    assert "/srv/data/broker-cy: Input/output error" in " ".join(cluster.play("health", check=False).output.split())
    lab.ssh("n2", "sudo systemctl disable --now broker-cy")
    lab.stop("n2")
    image = lab.host("n2").directory / "data.img"
    image.unlink()
    do("truncate", "-s", lab.shape.disk, image)
    do("mkfs.ext4", "-q", image)
    lab.start("n2")
    cluster.play("replace_broker", broker_replace="n2")
    assert cluster.voters() == [1, 2, 3]
    wait_until_well(cluster, "n1")


def test_certificates_that_ended(cluster: Deployed) -> None:
    """All connections are refused, and one playbook repairs the cluster."""
    for host in NAMES:
        let_certificate_end(cluster, host)
    for host in NAMES:
        cluster.lab.ssh(host, "sudo systemctl restart --no-block broker-cy")
    until(lambda: not is_well(cluster, "n1"), "a cluster that refuses connections", RECOVERY_S, POLL_S)
    assert not produces(cluster, "n1")
    cluster.play("rotate_certs")
    until(lambda: produces(cluster, "n1"), "records that are acknowledged", RECOVERY_S, POLL_S)
    wait_until_well(cluster, "n1")
