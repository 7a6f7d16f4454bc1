"""A cluster on the hosts of a lab, installed by playbooks: how tests run them, and what clients need."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.deploy.base import LabError
from tests.deploy.lab import REPOSITORY, Lab

PLAY_S = 900.0
CLI_S = 60.0
TOOLS = Path(sys.executable).parent
DEPLOY = REPOSITORY / "deploy" / "ansible"
_RECAP = re.compile(r"^(\S+)\s+: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Played:
    """One run of a playbook."""

    code: int
    output: str
    seconds: float

    @property
    def changed(self) -> dict[str, int]:
        """How many tasks changed something, by host."""
        return {host: int(changed) for host, _, changed, _, _ in _RECAP.findall(self.output)}


@dataclass
class Deployed:
    """The hosts of a lab as an operator sees them: an inventory, playbooks, and a login."""

    lab: Lab
    wheelhouse: Path
    version: str = "0.1.0"

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host.address}:9092" for host in self.lab.hosts[:3])

    def write_inventory(
        self, brokers: Sequence[str], host_variables: Mapping[str, Mapping[str, Any]] | None = None, **variables: Any
    ) -> None:
        """The hosts with this release, and what else the test says."""
        everywhere = {"broker_wheelhouse": str(self.wheelhouse), "broker_version": self.version, **variables}
        self.lab.write_inventory({"brokers": list(brokers)}, everywhere, host_variables)

    def play(self, name: str, *options: str, code: int | None = 0, **extra: Any) -> Played:
        """Run a playbook with extra variables. AssertionError if it ends with another code (None: any)."""
        words: list[str | Path] = [TOOLS / "ansible-playbook", "-i", self.lab.inventory, f"playbooks/{name}.yml"]
        if extra:
            words += ["--extra-vars", json.dumps(extra)]
        begun = time.monotonic()
        done = subprocess.run(
            self.lab.ctl(*words, *options),
            capture_output=True,
            text=True,
            timeout=PLAY_S,
            check=False,
            cwd=DEPLOY,
            env={**self.lab.environment(), "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1"},
            stdin=subprocess.DEVNULL,
        )
        played = Played(done.returncode, done.stdout + done.stderr, time.monotonic() - begun)
        log = self.lab.directory / f"{name}.log"
        log.write_text(played.output)
        print(f"{name} {json.dumps(extra)}: {played.seconds:.1f} s, code {played.code}, {log}", flush=True)
        assert code is None or played.code == code, played.output[-6000:]
        return played

    @property
    def config(self) -> Path:
        """The settings of a client that logs in as the administrator."""
        secrets = self.lab.inventory.parent / "secrets"
        path = self.lab.directory / "client.properties"
        (authority,) = [each for each in (secrets / "ca").glob("*.pem") if b"PRIVATE KEY" not in each.read_bytes()]
        password = (secrets / "passwords" / "admin").read_text().strip()
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        lines = [
            "security.protocol=SASL_SSL",
            "sasl.mechanism=SCRAM-SHA-512",
            f'sasl.jaas.config={module} required username="admin" password="{password}";',
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={authority}",
        ]
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write("\n".join([*lines, ""]))
        return path

    def cli(self, *words: str, check: bool = True) -> Any:
        """Run a command of broker-cy with --json on the lab's network, and return its document."""
        argv: list[str | Path] = [TOOLS / "broker-cy", *words, "--json"]
        argv += ["--bootstrap", self.bootstrap, "--command-config", self.config]
        done = subprocess.run(
            self.lab.ctl(*argv), capture_output=True, text=True, timeout=CLI_S, check=False, stdin=subprocess.DEVNULL
        )
        if check and done.returncode:
            raise LabError(f"{' '.join(words)}: exit code {done.returncode}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout) if done.stdout.strip() else None

    def release(self, host: str) -> str:
        """The release that a host's link points to."""
        return self.lab.ssh(host, "readlink /opt/broker-cy/current").stdout.strip().rpartition("/")[2]

    def started(self, host: str) -> str:
        """What changes with each start of the service."""
        return self.lab.ssh(host, "systemctl show broker-cy -p InvocationID --value").stdout.strip()

    def is_active(self, host: str) -> bool:
        return self.lab.ssh(host, "systemctl is-active broker-cy", check=False).returncode == 0

    def voters(self) -> list[int]:
        return sorted(each["replica_id"] for each in self.cli("quorum", "show")["voters"])


def build(wheelhouse: Path, *options: str | Path) -> Path:
    """Put a wheel into the wheelhouse, and return its path; see deploy/wheelhouse.py."""
    argv = [sys.executable, REPOSITORY / "deploy" / "wheelhouse.py", "--out", wheelhouse, *options]
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=PLAY_S, check=False)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def broken(wheel: Path, target: Path) -> Path:
    """A wheel like another one, but whose broker ends as soon as it is started; everything else of it works."""
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(target / wheel.name, "w") as made:
        for entry in source.infolist():
            content = source.read(entry)
            if entry.filename == "broker_cy/main.py":
                content = content.replace(
                    b"    logs.configure(", b'    sys.exit("this release is broken on purpose")\n    logs.configure(', 1
                )
                assert b"on purpose" in content
            made.writestr(entry, content)
    return target / wheel.name
