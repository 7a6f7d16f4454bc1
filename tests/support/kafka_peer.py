"""A real Apache Kafka 4.3.1 broker (a quorum of one) as a process."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping
from pathlib import Path

from tests.support import raw_wire
from tests.support.kafka_dist import java, run_tool
from tests.support.ports import free_ports
from tests.support.processes import Child
from tests.support.wait import until

_CLUSTER_ID = "vPeWCWqNQ0eGGvvK5wD1kg"
_HEAP_MB = 512
# Kafka's defaults are for three brokers and for people; these are what one broker under test needs.
_SINGLE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
}


class KafkaPeer:
    """Start with `start()`, end with `stop()` or `kill()`; `restart()` keeps port and data. Shaped like
    BrokerProcess."""

    host = "127.0.0.1"
    target = "kafka"

    def __init__(
        self, directory: Path, settings: Mapping[str, str] | None = None, data_dir: Path | None = None
    ) -> None:
        self.directory = directory
        self.data_dir = data_dir or directory / "data"
        self.settings = dict(settings or {})
        self.port, self._controller_port = free_ports(2)
        self._child: Child | None = None
        self._starts = 0

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    def stdout(self) -> str:
        return self._child.stdout() if self._child else ""

    def stderr(self) -> str:
        return self._child.stderr() if self._child else ""

    def start(self) -> KafkaPeer:
        properties = self._write_properties()
        if not (self.data_dir / "meta.properties").exists():
            run_tool("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", properties, "--ignore-formatted")
        argv: list[str | Path] = [
            *java(
                f"-Xmx{_HEAP_MB}m",
                f"-Xms{_HEAP_MB}m",
                "-XX:+UseG1GC",
                "-XX:MaxGCPauseMillis=20",
                "-XX:InitiatingHeapOccupancyPercent=35",
                f"-Dkafka.logs.dir={self.directory}",
                log_level=os.environ.get("BROKER_CY_TEST_KAFKA_LOG", "WARN"),
            ),
            "kafka.Kafka",
            properties,
        ]
        self._starts += 1
        self._child = Child(argv, self.directory, f"kafka-{self._starts}")
        until(
            self._answers, f"Kafka on {self.bootstrap}; stderr:\n{self.stderr()[-3000:]}", timeout_s=90, interval_s=0.05
        )
        return self

    def _answers(self) -> bool:
        assert self._child is not None
        if self._child.returncode is not None:
            raise AssertionError(f"Kafka ended with {self._child.returncode}:\n{self.stderr()[-4000:]}")
        try:
            with socket.create_connection((self.host, self.port), 1) as sock:
                raw_wire.send_request(sock, raw_wire.API_VERSIONS, 0, b"")
                return len(raw_wire.receive_frame(sock)) > 10
        except OSError:
            return False

    def _write_properties(self) -> Path:
        self.directory.mkdir(parents=True, exist_ok=True)
        listeners = f"PLAINTEXT://{self.host}:{self.port},CONTROLLER://{self.host}:{self._controller_port}"
        merged = {
            **_SINGLE_NODE,
            "controller.quorum.voters": f"1@{self.host}:{self._controller_port}",
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "log.dirs": str(self.data_dir),
            **self.settings,
        }
        path = self.directory / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in merged.items()))
        return path

    def stop(self, timeout_s: float = 60.0) -> int:
        """SIGTERM, and its exit code."""
        assert self._child is not None
        self._child.send_signal(signal.SIGTERM)
        code = self._child.wait(timeout_s)
        # Java tells of a SIGTERM by 128 + 15 after an orderly stop.
        return 0 if code == 128 + signal.SIGTERM else code

    def kill(self) -> None:
        """SIGKILL, and reap."""
        if self._child is not None:
            self._child.kill()

    def restart(self) -> KafkaPeer:
        """Start again after `stop` or `kill`, on the same port and data."""
        assert self._child is not None
        assert self._child.returncode is not None
        return self.start()

    close = kill
