"""Schema registries as processes: ours, and Apicurio Registry from Maven Central, each over a broker."""

from __future__ import annotations

import http.client
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from bench.launch.nodes import Node
from broker_cy.launch.cache import made_once
from broker_cy.launch.maven import copy_archive
from broker_cy.launch.processes import Child, ProcessError

VERSION = "3.3.3"
JAVA_AT_LEAST = 21
_ARCHIVE = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
_JVMS = Path("/usr/lib/jvm")
_PROBE_TIMEOUT_S = 5.0
_STARTED_S = 300.0


class RegistryNode(Node):
    """A registry over the cluster at `bootstrap`. `root` is the path before those of Confluent's API."""

    root = ""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        super().__init__(directory)
        directory.mkdir(parents=True, exist_ok=True)
        self.cluster = bootstrap


class BrokerRegistry(RegistryNode):
    """`broker-registry`, as installed for this interpreter."""

    name = "broker-registry"

    def command(self) -> Sequence[str | Path]:
        installed = Path(sys.executable).parent / self.name
        start = [str(installed)] if installed.exists() else [sys.executable, "-m", "broker_registry"]
        return [*start, "--bootstrap", self.cluster, "--listen", f"{self.host}:{self.port}"]


class Apicurio(RegistryNode):
    """Apicurio Registry, with its storage in a topic of the cluster."""

    name = "apicurio"
    root = "/apis/ccompat/v7"

    def __init__(self, directory: Path, bootstrap: str) -> None:
        super().__init__(directory, bootstrap)
        self.ready_timeout_s = _STARTED_S

    def prepare(self) -> None:
        if (sentence := missing()) is not None:
            raise ProcessError(sentence)

    def command(self) -> Sequence[str | Path]:
        settings = {
            "quarkus.http.host": self.host,
            "quarkus.http.port": self.port,
            "quarkus.management.enabled": "false",
            "quarkus.log.level": "WARN",
            "apicurio.storage.kind": "kafkasql",
            "apicurio.kafkasql.bootstrap.servers": self.cluster,
        }
        java = _java()
        assert java is not None
        flags = [f"-D{name}={value}" for name, value in settings.items()]
        return [java, "-Xms256m", "-Xmx1g", *flags, "-jar", _home() / "quarkus-run.jar"]

    def ready(self, child: Child) -> bool:
        """Return whether it lists subjects."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=_PROBE_TIMEOUT_S)
        try:
            connection.request("GET", f"{self.root}/subjects")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


@cache
def _java() -> Path | None:
    """Return a JVM that Apicurio runs on; None if there is none."""
    found = shutil.which("java")
    installed = [Path(found)] if found else []
    for java in [*installed, *sorted(_JVMS.glob("*/bin/java"))]:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
        version = re.search(r'version "(\d+)', said)
        if version is not None and int(version[1]) >= JAVA_AT_LEAST:
            return java
    return None


def missing() -> str | None:
    """Return a sentence about what must be installed to run Apicurio here; None if nothing is missing."""
    if _java() is None:
        return f"Apicurio Registry {VERSION} needs java {JAVA_AT_LEAST} or newer, in PATH or in {_JVMS}"
    if shutil.which("mvn") is None:
        return "Apicurio Registry is downloaded by mvn, which is not installed (Debian: apt-get install maven)"
    return None


@cache
def _home() -> Path:
    """Return the directory with quarkus-run.jar; the first call on a machine downloads 160 MB."""
    return made_once(f"apicurio-{VERSION}", lambda directory: copy_archive(directory, _ARCHIVE))
