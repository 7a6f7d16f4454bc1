"""Our broker with logins and ACLs: `admin` is a super user, everybody on the other listener is User:ANONYMOUS, and one,
too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.support.sasl_broker import ADMIN_PASSWORD, SaslBroker, client_jaas, write_properties

AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}


class SecuredBroker(SaslBroker):
    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, {**AUTHORIZED, **(settings or {})})

    def client_file(self, user: str, password: str, mechanism: str = "PLAIN") -> Path:
        """A file for --command-config with a login."""
        path = self.directory / f"{user}-{mechanism}.properties"
        write_properties(
            path,
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.jaas.config": client_jaas(mechanism, user, password),
            },
        )
        return path

    @property
    def admin_file(self) -> Path:
        return self.client_file("admin", ADMIN_PASSWORD)
