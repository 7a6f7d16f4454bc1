"""The authorizer of a node: authorizer.class.name, and the settings that Kafka's StandardAuthorizer reads itself.

Kafka has no definition of the latter, so DescribeConfigs shows them as Kafka does: as possible secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from broker_cy.core.classes import NamedTuple
from broker_cy.core.config_def.types import ConfigError, parse
from broker_cy.core.configs import ConfigType

CLASS_NAME: Final = "authorizer.class.name"
STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SUPER_USERS: Final = "super.users"
ALLOW_IF_NO_ACL: Final = "allow.everyone.if.no.acl.found"
# Settings without effect unless an authorizer is configured.
SETTINGS: Final = frozenset({SUPER_USERS, ALLOW_IF_NO_ACL})


class Configured(Protocol):
    """BrokerConfig, as far as it is read here."""

    @property
    def static(self) -> Mapping[str, str]: ...
    def __getitem__(self, name: str) -> Any: ...


class AuthorizerSettings(NamedTuple):
    """`super_users` may do everything; they are principals, `User:NAME`."""

    super_users: frozenset[str]
    allow_if_no_acl: bool


def authorizer_settings(config: Configured) -> AuthorizerSettings | None:
    """The settings of the authorizer; None without an authorizer. Raises ConfigError."""
    if not config["authorizer.class.name"]:
        return None
    users = (text.strip() for text in config.static.get(SUPER_USERS, "").split(";"))
    super_users = frozenset(text for text in users if text)
    for user in super_users:
        if ":" not in user.strip(":"):
            raise ConfigError(
                f"setting {SUPER_USERS}={config.static[SUPER_USERS]} is invalid: expected a string in format "
                f"principalType:principalName but got {user}; several are separated by semicolons"
            )
    allow = parse(ALLOW_IF_NO_ACL, config.static.get(ALLOW_IF_NO_ACL, "false"), ConfigType.BOOLEAN)
    return AuthorizerSettings(super_users, allow)
