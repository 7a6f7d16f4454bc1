"""Apache Kafka 4.3.1 from Maven Central as the peer: fetched once into the cache, started with its own JVM flags."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

from bench.targets import BROKER_SETTINGS, Address, Spawned, TargetError

VERSION = "4.3.1"
LOG4J = "2.25.3"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>bench</groupId><artifactId>peer</artifactId><version>1</version><dependencies>{}</dependencies></project>"""
DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
ARTIFACTS = [
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.apache.logging.log4j", "log4j-core", LOG4J),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J),
]
JVM_FLAGS = [  # those of kafka-run-class.sh and kafka-server-start.sh
    "-Xms1G", "-Xmx1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
]  # fmt: skip


def libraries(cache: Path) -> Path:
    """Directory with Kafka's jars, fetched by Maven on first use. Raises TargetError where that is not possible."""
    jars = cache / f"kafka-{VERSION}" / "libs"
    if any(jars.glob("kafka_2.13-*.jar")):
        return jars
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise TargetError(f"the Kafka peer needs {tool} (Debian: apt-get install openjdk-17-jre-headless maven)")
    partial = jars.with_name(f"libs.{os.getpid()}")
    partial.mkdir(parents=True)
    (partial / "pom.xml").write_text(POM.format("".join(DEPENDENCY.format(*artifact) for artifact in ARTIFACTS)))
    command = ["mvn", "-q", "-B", "-f", str(partial / "pom.xml"), "dependency:copy-dependencies"]
    done = subprocess.run([*command, f"-DoutputDirectory={partial}"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise TargetError(f"Maven could not fetch Kafka {VERSION}: {done.stdout.strip()[-500:]}")
    if not jars.exists():
        partial.rename(jars)
    return jars


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Kafka(Spawned):
    """One node that is broker and controller."""

    name = "kafka"

    def __init__(self, directory: Path, cache: Path) -> None:
        super().__init__(directory)
        self.classpath = f"{libraries(cache)}/*"
        self.port, self.controller_port = free_port(), free_port()

    def version(self) -> str:
        return f"Apache Kafka {VERSION}"

    @property
    def properties(self) -> Path:
        return self.directory.with_name(self.directory.name + ".properties")

    def command(self) -> list[str]:
        return ["java", *JVM_FLAGS, "-cp", self.classpath, "kafka.Kafka", str(self.properties)]

    def start(self) -> None:
        if not (self.directory / "meta.properties").exists():
            self._format()
        super().start()

    def _format(self) -> None:
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.directory),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **BROKER_SETTINGS,
        }
        self.properties.parent.mkdir(parents=True, exist_ok=True)
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        command = ["java", "-cp", self.classpath, "kafka.tools.StorageTool", "format", "-c", str(self.properties)]
        done = subprocess.run([*command, "-t", "YnJva2VyLWN5LWJlbmNoIQ"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise TargetError(f"Kafka's storage tool: {(done.stdout + done.stderr).strip()[-500:]}")

    def find_address(self, deadline: float) -> Address:
        """The port was chosen beforehand: Kafka prints no address."""
        return "127.0.0.1", self.port
