"""Our broker with a listener for TLS, one for logins over TLS, and an open one for the test itself."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.launch.nodes import broker_command, free_ports
from tests.support.broker import QUICK, BrokerProcess
from tests.support.certificates import Authority, Holder
from tests.support.sasl_broker import listener_settings, write_properties


class TlsBroker(BrokerProcess):
    """`port` is that of the listener with SSL, `sasl_port` of SASL_SSL, `open_port` of PLAINTEXT. Its key is in PEM."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, {**QUICK, **(settings or {})})
        self.sasl_port = self.open_port = 0
        self.authority = Authority()
        self.holder = self.authority.issue("broker")

    def choose_ports(self) -> None:
        self.port, self.sasl_port, self.open_port = free_ports(3)

    def stores(self) -> dict[str, str]:
        """The settings of its own key; overridden by tests of others."""
        self.directory.mkdir(parents=True, exist_ok=True)
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.holder.write_pem(self.directory / "broker.pem")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.write_pem(self.directory / "authority.pem")),
        }

    def prepare(self) -> None:
        host = self.host
        write_properties(
            self.directory / "server.properties",
            {
                "listeners": f"SSL://{host}:{self.port},SASL_SSL://{host}:{self.sasl_port},OPEN://{host}:{self.open_port}",
                "listener.security.protocol.map": "SSL:SSL,SASL_SSL:SASL_SSL,OPEN:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "OPEN",
                **listener_settings("SASL_SSL"),
                **self.stores(),
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

    @property
    def sasl_bootstrap(self) -> str:
        return f"{self.host}:{self.sasl_port}"

    def confluent(self, holder: Holder | None = None) -> dict[str, str]:
        """The settings of librdkafka for the listener with SSL."""
        found = {
            "bootstrap.servers": f"{self.host}:{self.port}",
            "security.protocol": "SSL",
            "ssl.ca.pem": self.authority.pem,
        }
        if holder is not None:
            found |= {"ssl.key.pem": holder.key_pem(), "ssl.certificate.pem": holder.certificate_pem}
        return found

    def context(self, holder: Holder | None = None, directory: Path | None = None) -> ssl.SSLContext:
        """Of Python's ssl, with the certificate of `holder`, for which `directory` is needed."""
        context = ssl.create_default_context(cadata=self.authority.pem)
        if holder is not None:
            assert directory is not None
            context.load_cert_chain(holder.write_pem(directory / "client.pem"))
        return context
