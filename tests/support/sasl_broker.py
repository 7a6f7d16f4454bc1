"""Our broker with listeners that require a login or TLS, and one for the test that requires neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from bench.launch.nodes import broker_command, free_ports
from tests.support.broker import QUICK, BrokerProcess
from tests.support.kafka_peer import KafkaPeer

TIMEOUT_S = 60.0
ALICE, PASSWORD = "alice", 'alice, "secret"=1'
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
ADMIN_PASSWORD: Final = "admin-secret"
_TYPES: Final = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}


def quoted(text: str) -> str:
    """Return a text in the quoting of JAAS."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def client_jaas(mechanism: str, user: str, password: str) -> str:
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    return f"{module} required username={quoted(user)} password={quoted(password)};"


def listener_settings(listener: str) -> dict[str, str]:
    """The settings of a listener with all mechanisms; the login of nodes is that of the user `admin`."""
    prefix = f"listener.name.{listener.lower()}."
    own = f'username="admin" password="{ADMIN_PASSWORD}"'
    users = f"user_admin={quoted(ADMIN_PASSWORD)} user_{ALICE}={quoted(PASSWORD)}"
    return {
        f"{prefix}sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"{prefix}plain.sasl.jaas.config": f"{PLAIN_MODULE} required {own} {users};",
        f"{prefix}scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required {own};",
        f"{prefix}scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required {own};",
    }


def client_settings(user: str, password: str, mechanism: str = "PLAIN") -> dict[str, str]:
    """The settings of a client that logs in without TLS."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": client_jaas(mechanism, user, password),
    }


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Write a Java properties file: a backslash in a value is doubled."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name}={value}\n".replace("\\", "\\\\") for name, value in settings.items()))


class SecuredBroker(BrokerProcess):
    """A broker whose `listeners` are in a file, because secrets are. The last of them, OPEN, requires no login: it is
    for the test, at `open_port`; the first is at `port`.
    """

    # The names of the listeners, which are the names of their protocols, except for the last one.
    listeners: Sequence[str] = ()

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, {**QUICK, **(settings or {})})
        self.ports: Sequence[int] = ()
        self.open_port = 0

    def choose_ports(self) -> None:
        self.ports = free_ports(len(self.listeners) + 1)
        self.port, self.open_port = self.ports[0], self.ports[-1]

    def secrets(self) -> dict[str, str]:
        """The settings of logins and keys."""
        raise NotImplementedError

    def prepare(self) -> None:
        names = [*self.listeners, "OPEN"]
        protocols = [f"{name}:{name}" for name in self.listeners]
        write_properties(
            self.directory / "server.properties",
            {
                "listeners": ",".join(
                    f"{name}://{self.host}:{port}" for name, port in zip(names, self.ports, strict=True)
                ),
                "listener.security.protocol.map": ",".join([*protocols, "OPEN:PLAINTEXT", "CONTROLLER:PLAINTEXT"]),
                "inter.broker.listener.name": "OPEN",
                **self.secrets(),
                **self.settings,
            },
        )

    def command(self) -> Sequence[str | Path]:
        return [
            *broker_command(),
            "start",
            "--data-dir",
            self.data_dir,
            "--config",
            self.directory / "server.properties",
        ]

    @property
    def open_bootstrap(self) -> str:
        return f"{self.host}:{self.open_port}"

    def add_user(self, user: str, password: str, mechanisms: Sequence[str] = MECHANISMS[1:]) -> None:
        """Add a SCRAM user, or change its password."""
        admin = AdminClient({"bootstrap.servers": self.open_bootstrap})
        changes = [
            UserScramCredentialUpsertion(user, ScramCredentialInfo(_TYPES[name], 4_096), password.encode())
            for name in mechanisms
        ]
        for change in changes:
            for done in admin.alter_user_scram_credentials([change]).values():
                done.result(TIMEOUT_S)


class SaslBroker(SecuredBroker):
    """`port` is the port of the SASL listener, `open_port` that of the other one."""

    listeners = ("SASL_PLAINTEXT",)

    def secrets(self) -> dict[str, str]:
        return listener_settings("SASL_PLAINTEXT")


class KafkaSaslPeer(KafkaPeer):
    """Apache Kafka with the same two listeners: `port` is the port of the SASL listener, which clients know as
    `name`.
    """

    name = KafkaPeer.host

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        super().__init__(directory, settings)
        self.open_port = 0

    def choose_ports(self) -> None:
        self.port, self.controller_port, self.open_port = free_ports(3)

    def _write_properties(self) -> None:
        super()._write_properties()
        lines = dict(line.partition("=")[::2] for line in self._properties.read_text().splitlines())
        both = f"SASL_PLAINTEXT://{self.host}:{self.port},OPEN://{self.host}:{self.open_port}"
        lines |= {
            "listeners": f"{both},CONTROLLER://{self.host}:{self.controller_port}",
            "advertised.listeners": both.replace(self.host, self.name, 1),
            "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,OPEN:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "OPEN",
        }
        write_properties(self._properties, lines)

    def ready(self, child: Any) -> bool:
        port, self.port = self.port, self.open_port
        try:
            return super().ready(child)
        finally:
            self.port = port
