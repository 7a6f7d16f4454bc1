"""Apache Kafka 4.3.1 as the peer: the distribution the tests use, started with the JVM flags of Kafka's own script."""

import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.targets import Address, Spawned, TargetError
from tests.support import kafka_dist

JVM_FLAGS = [  # those of kafka-run-class.sh and kafka-server-start.sh
    "-Xms1G", "-Xmx1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
]  # fmt: skip


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Kafka(Spawned):
    """One node that is broker and controller."""

    name = "kafka"
    tells_address = False

    def __init__(
        self, directory: Path, settings: Mapping[str, str] | None = None, jvm_flags: Sequence[str] = ()
    ) -> None:
        super().__init__(directory, settings)
        self.jvm_flags = jvm_flags  # after those of Kafka's script: the JVM takes the last of two that contradict
        for tool in ("java", "mvn"):
            if shutil.which(tool) is None:
                raise TargetError(
                    f"the Kafka peer needs {tool} (Debian: apt-get install openjdk-17-jre-headless maven)"
                )
        self.port, self.controller_port = free_port(), free_port()

    def version(self) -> str:
        return f"Apache Kafka {kafka_dist.VERSION}"

    @property
    def properties(self) -> Path:
        return self.directory.with_name(self.directory.name + ".properties")

    def command(self) -> list[str]:
        return [*kafka_dist.java(*JVM_FLAGS, *self.jvm_flags, log_level="ERROR"), "kafka.Kafka", str(self.properties)]

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
            **self.settings,
        }
        self.properties.parent.mkdir(parents=True, exist_ok=True)
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        command = [*kafka_dist.java("-Xmx256m"), "kafka.tools.StorageTool", "format", "-c", str(self.properties)]
        done = subprocess.run([*command, "-t", "YnJva2VyLWN5LWJlbmNoIQ"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise TargetError(f"Kafka's storage tool: {(done.stdout + done.stderr).strip()[-500:]}")

    def find_address(self, deadline: float) -> Address:
        """The port was chosen beforehand: Kafka prints no address."""
        return "127.0.0.1", self.port
