"""A cluster in service on the hosts of a lab: playbooks that change it, and the login of clients."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker_cy.launch.processes import run
from tests.deploy.cluster import ask_json
from tests.deploy.lab import Lab
from tests.deploy.playbooks import Recap, play
from tests.deploy.times import note
from tests.deploy.wheels import BUILD_S, PROGRAM, version, wheelhouse

# Copies of the tree's release with another version: NEW is the same code, and the broker of BROKEN does not start.
NEW, BROKEN = "0.1.1", "0.1.2"


@dataclass
class Deployed:
    """The hosts of a lab as an operator sees them."""

    lab: Lab
    # A host that is never removed, whose command line is used.
    witness: str = "n1"

    def write_inventory(
        self, brokers: Sequence[str], host_variables: Mapping[str, Mapping[str, Any]] | None = None, **variables: Any
    ) -> None:
        """Write the inventory: the brokers with the release of the tree, and the variables of the test."""
        self.lab.write_inventory({"brokers": list(brokers)}, {"broker_version": version(), **variables}, host_variables)

    def play(self, name: str, *options: str, check: bool = True, what: str = "", **extra: Any) -> Recap:
        """Run a playbook with extra variables, and note its duration."""
        arguments = ["--extra-vars", json.dumps(extra)] if extra else []
        done = play(self.lab, f"{name}.yml", *arguments, *options, check=check)
        note(what or f"{name} {' '.join(f'{key}={value}' for key, value in extra.items())}".strip(), done.seconds)
        return done

    def set_up(self, brokers: Sequence[str]) -> None:
        """From empty hosts to brokers that serve."""
        self.write_inventory(brokers)
        self.play("site", what="nothing to serving")

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host.address}:9092" for host in self.lab.hosts[:3])

    @property
    def config(self) -> Path:
        """The settings of a client that logs in as the administrator."""
        kept = self.lab.inventory.parent / "secrets" / "ca"
        (authority,) = [each for each in kept.glob("*.pem") if b"PRIVATE KEY" not in each.read_bytes()]
        return self.write_client_settings(self.lab.directory / "client.properties", authority)

    def write_client_settings(self, path: Path, authority: Path) -> Path:
        """Write the settings of a client that logs in as the administrator and trusts the authorities of a file."""
        secrets = self.lab.inventory.parent / "secrets"
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

    def ask(self, *words: str) -> Any:
        """The JSON output of a broker-cy command."""
        return ask_json(self.lab, self.witness, *words)

    def release(self, host: str) -> str:
        """The release that a host's link points to."""
        return self.lab.ssh(host, "readlink /opt/broker-cy/current").stdout.strip().rpartition("/")[2]

    def started(self, host: str) -> str:
        """A value that changes with each start of the service."""
        return self.lab.ssh(host, "systemctl show broker-cy -p InvocationID --value").stdout.strip()

    def is_active(self, host: str) -> bool:
        return self.lab.ssh(host, "systemctl is-active broker-cy", check=False).returncode == 0

    def voters(self) -> list[int]:
        return sorted(each["replica_id"] for each in self.ask("quorum", "show")["voters"])


def releases(lab: Lab) -> None:
    """Put the tree's release, NEW and BROKEN into the wheelhouse of the lab."""
    directory = wheelhouse(lab, versions=[NEW])
    if not list(directory.glob(f"broker_cy-{BROKEN}-*.whl")):
        (wheel,) = directory.glob(f"broker_cy-{version()}-*.whl")
        made = _broken(wheel, lab.directory / wheel.name)
        argv: list[str | Path] = [sys.executable, PROGRAM, "--out", directory]
        argv += ["--from-wheel", made, "--version", BROKEN]
        run(argv, timeout_s=BUILD_S)
        made.unlink()


def _broken(wheel: Path, made: Path) -> Path:
    """A copy of a wheel whose broker exits as soon as it is started; everything else in it works."""
    begin = b"    logs.configure("
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(made, "w") as target:
        for entry in source.infolist():
            content = source.read(entry)
            if entry.filename == "broker_cy/main.py":
                assert begin in content
                content = content.replace(begin, b'    sys.exit("this release is broken on purpose")\n' + begin, 1)
            target.writestr(entry, content)
    return made
