"""Our broker with logins and ACLs: `admin` is a super user, and so is User:ANONYMOUS, every client of the other
listener.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.support.sasl_broker import ADMIN_PASSWORD, SaslBroker, client_settings, write_properties

TOKEN_KEY = "the key of the tokens"
AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "delegation.token.secret.key": TOKEN_KEY,
}


class SecuredBroker(SaslBroker):
    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, {**AUTHORIZED, **(settings or {})})

    def client_file(self, user: str, password: str, mechanism: str = "PLAIN") -> Path:
        """A file for --command-config with a login."""
        path = self.directory / f"{user}-{mechanism}.properties"
        write_properties(path, client_settings(user, password, mechanism))
        return path

    @property
    def admin_file(self) -> Path:
        return self.client_file("admin", ADMIN_PASSWORD)
