"""Our broker with a TLS listener, one for logins over TLS, and an open one for the test itself."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

from tests.support.certificates import Authority, Holder
from tests.support.sasl_broker import SecuredBroker, listener_settings


class TlsBroker(SecuredBroker):
    """`port` is the port of the SSL listener, `sasl_port` of SASL_SSL, `open_port` of PLAINTEXT. The key is in PEM."""

    listeners = ("SSL", "SASL_SSL")

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, settings)
        self.authority = Authority()
        self.holder = self.authority.issue("broker")

    @property
    def sasl_port(self) -> int:
        return self.ports[1]

    def stores(self) -> dict[str, str]:
        """The settings of its own key; tests of other stores override this."""
        self.directory.mkdir(parents=True, exist_ok=True)
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.holder.write_pem(self.directory / "broker.pem")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.write_pem(self.directory / "authority.pem")),
        }

    def secrets(self) -> dict[str, str]:
        return listener_settings("SASL_SSL") | self.stores()

    @property
    def sasl_bootstrap(self) -> str:
        return f"{self.host}:{self.sasl_port}"

    def confluent(self, holder: Holder | None = None) -> dict[str, str]:
        """The settings of librdkafka for the SSL listener."""
        found = {
            "bootstrap.servers": f"{self.host}:{self.port}",
            "security.protocol": "SSL",
            "ssl.ca.pem": self.authority.pem,
        }
        if holder is not None:
            found |= {"ssl.key.pem": holder.key_pem(), "ssl.certificate.pem": holder.certificate_pem}
        return found

    def context(self, holder: Holder | None = None, directory: Path | None = None) -> ssl.SSLContext:
        """A context of Python's ssl, with the certificate of `holder`, which needs `directory`."""
        context = ssl.create_default_context(cadata=self.authority.pem)
        if holder is not None:
            assert directory is not None
            context.load_cert_chain(holder.write_pem(directory / "client.pem"))
        return context
