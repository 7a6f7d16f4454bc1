"""Apache Kafka 4.3.1 on hosts of a lab, as a service of systemd: each host is a broker and a controller.

Hosts of a lab have no Java and reach no mirror, so this machine's is copied to them, with Kafka's jars
(bench.launch.kafka_dist): the hosts have to run the same release of Debian.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryFile

from bench.launch import kafka_dist
from tests.deploy.base import LabError
from tests.deploy.host import number
from tests.deploy.lab import Lab

# Parts of a development kit that running a program does not need.
NOT_NEEDED = ("src.zip", "ct.sym")
CLUSTER_ID = "vPeWCWqNQ0eGGvvK5wD1kg"
COPY_S = 120.0
UNIT = """\
[Unit]
Description=Apache Kafka
After=network-online.target
[Service]
User=kafka
ExecStart=/opt/java/bin/java -Xms384m -Xmx384m -XX:TieredStopAtLevel=1 \
 -Dlog4j2.configurationFile=/opt/kafka/log4j2.properties -cp /opt/kafka/libs/* kafka.Kafka /etc/kafka/server.properties
SuccessExitStatus=143
TimeoutStopSec=120
[Install]
WantedBy=multi-user.target
"""
# Small sizes for tests, otherwise as in Kafka's documentation.
PROPERTIES = """\
process.roles=broker,controller
node.id={node}
listeners=PLAINTEXT://{address}:9092,CONTROLLER://{address}:9093
advertised.listeners=PLAINTEXT://{address}:9092
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
controller.quorum.voters={voters}
log.dirs=/srv/data/kafka
broker.rack=rack-{node}
num.partitions=3
default.replication.factor=3
min.insync.replicas=2
offsets.topic.num.partitions=4
offsets.topic.replication.factor=3
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
"""


def _java_home() -> Path:
    """The directory of this machine's Java. LabError if Java is not installed."""
    found = shutil.which("java")
    if found is None:
        raise LabError(str(kafka_dist.missing()))
    return Path(found).resolve().parents[1]


def _java_files() -> list[Path]:
    """The files of Java that running a program needs."""
    home = _java_home()
    parts = [home / "bin", home / "conf", home / "release", *(home / "lib").iterdir()]
    return [part for part in parts if part.name not in NOT_NEEDED and part.exists()]


def start_kafka(lab: Lab, names: Sequence[str]) -> None:
    """Set up and start one Kafka cluster on these hosts; the node ids are the numbers of the hosts."""
    voters = ",".join(f"{number(name)}@{lab.host(name).address}:9093" for name in names)
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lambda name: _install(lab, name, voters), names))


def _install(lab: Lab, name: str, voters: str) -> None:
    libs = Path(kafka_dist.kafka_classpath().removesuffix("/*"))
    with TemporaryFile() as file:
        # Java's settings are links to /etc.
        with tarfile.open(fileobj=file, mode="w", dereference=True) as tar:
            for path in _java_files():
                tar.add(path, "opt/java" / path.relative_to(_java_home()))
            tar.add(libs, "opt/kafka/libs")
            tar.add(libs.parent / "log4j2.properties", "opt/kafka/log4j2.properties")
        file.seek(0)
        argv = [word for word in lab.ssh_argv(name, "sudo tar -C / -xf - --no-same-owner") if word != "-n"]
        done = subprocess.run(argv, stdin=file, capture_output=True, text=True, timeout=COPY_S, check=False)
    if done.returncode:
        raise LabError(f"{name}: Kafka could not be copied: {done.stderr}")
    properties = PROPERTIES.format(node=number(name), address=lab.host(name).address, voters=voters)
    storage = "/opt/java/bin/java -cp '/opt/kafka/libs/*' kafka.tools.StorageTool format"
    lab.ssh(
        name,
        "set -e; id kafka >/dev/null 2>&1 || sudo useradd --system kafka\n"
        "sudo install -d -o kafka /srv/data/kafka /etc/kafka\n"
        f"sudo tee /etc/kafka/server.properties >/dev/null <<'EOF'\n{properties}EOF\n"
        f"sudo tee /etc/systemd/system/kafka.service >/dev/null <<'EOF'\n{UNIT}EOF\n"
        f"sudo -u kafka {storage} -t {CLUSTER_ID} -c /etc/kafka/server.properties\n"
        "sudo systemctl daemon-reload; sudo systemctl enable --now kafka",
    )
