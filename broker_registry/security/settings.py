"""The settings of security, by their names in Confluent's `schema-registry.properties`, and those of this project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from broker_cy.core.config_def.types import ConfigError
from broker_cy.security.jaas import BY_PASSWORD
from broker_cy.security.tls.principal import MappingError, PrincipalMapper
from broker_cy.security.token_settings import OAuth, check_url, required_tokens

METHOD: Final = "authentication.method"
REALM: Final = "authentication.realm"
ROLES: Final = "authentication.roles"
SKIP_PATHS: Final = "authentication.skip.paths"
INITIALIZERS: Final = "rest.servlet.initializor.classes"
EXTENSIONS: Final = ("resource.extension.class", "schema.registry.resource.extension.class")
AUTHORIZER: Final = "confluent.schema.registry.authorizer.class"
MECHANISM: Final = "confluent.schema.registry.auth.mechanism"
RULES: Final = "confluent.schema.registry.auth.ssl.principal.mapping.rules"
ANONYMOUS: Final = "confluent.schema.registry.anonymous.principal"
SUPER_USERS: Final = "confluent.topic.acl.super.users"
ALLOW_IF_NO_ACL: Final = "allow.everyone.if.no.acl.found"
USERS_FILE: Final = "brokercy.registry.users.file"
USERS_MECHANISM: Final = "brokercy.registry.users.mechanism"
# Settings that begin like this and are not known protect something: they are refused, and not ignored.
PREFIXES: Final = (
    "ssl.",
    "listener.name.",
    "authentication.",
    "oauthbearer.",
    "confluent.schema.registry.auth",
    "confluent.topic.acl.",
    "brokercy.registry.",
)
# Those of them without an effect: files are always read again, and the rest names parts of Java.
IDLE: Final = frozenset(
    {
        "ssl.keystore.reload",
        "ssl.keystore.watch.location",
        "ssl.provider",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
    }
)
_KAFKA_TOKENS: Final = "sasl.oauthbearer."
_TOKENS: Final = "oauthbearer."
_PLUGIN: Final = "io.confluent.kafka.schemaregistry.security."
_EXTENSION: Final = f"{_PLUGIN}SchemaRegistrySecurityResourceExtension"
TOPIC_ACLS: Final = f"{_PLUGIN}authorizer.topicacl.SimpleTopicAclAuthorizer"
_OAUTH_HANDLERS: Final = frozenset(
    f"io.confluent.common.security.jetty.initializer.{name}"
    for name in ("InstallOAuthSecurityHandler", "AuthenticationHandler")
)
_BY_CERTIFICATE: Final = "SSL"
_EVERY_ROLE: Final = ("*", "**")


class Method(Enum):
    """The credentials that a request must have."""

    NONE = "NONE"
    BASIC = "BASIC"
    BEARER = "BEARER"


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """`realm` is shown to clients. `roles`: a user of the file needs one of them; empty for any. The users of BASIC are
    those of `users_file`, or those of the cluster, who log in there with `users_mechanism`. `tokens` are the
    requirements of BEARER.

    `certificate_rules`: the certificate of a client names its principal, by these rules; None: the login does.
    `skip_paths` need no login; their clients are User:ANONYMOUS if `has_anonymous`.

    `uses_acls`: the ACLs of the cluster decide what a client may do; without, each client may do everything.
    """

    method: Method = Method.NONE
    realm: str = ""
    roles: frozenset[str] = frozenset()
    users_file: str | None = None
    users_mechanism: str | None = None
    tokens: OAuth | None = None
    certificate_rules: str | None = None
    skip_paths: tuple[str, ...] = ()
    has_anonymous: bool = False
    uses_acls: bool = False
    super_users: frozenset[str] = field(default_factory=frozenset)
    allow_if_no_acl: bool = False


def security_of(found: Mapping[str, Any], given: Mapping[str, str], *, asks_certificates: bool) -> SecuritySettings:
    """Return the settings. `found` has the typed values, `given` the texts of the file. `asks_certificates`: a listener
    asks clients for a certificate. Raises ConfigError.
    """
    _check_classes(found)
    method = _method(found)
    uses_acls = found[AUTHORIZER] is not None
    roles = frozenset(found[ROLES])
    if roles & set(_EVERY_ROLE):
        roles = frozenset()
    mechanism = (found[MECHANISM] or "").upper()
    rules = None
    if mechanism == _BY_CERTIFICATE or (not mechanism and method is Method.NONE and asks_certificates):
        rules = _rules(found[RULES] or "DEFAULT")
        if not asks_certificates:
            raise ConfigError(
                f"{MECHANISM}={_BY_CERTIFICATE} needs listeners with https and ssl.client.authentication=REQUIRED"
            )
    elif found[RULES]:
        raise ConfigError(f"{RULES} has no effect unless certificates name the clients: set {MECHANISM}=SSL")
    if uses_acls and rules is None and method is Method.NONE:
        raise ConfigError(
            f"{AUTHORIZER} needs clients that log in: set {METHOD}, or ssl.client.authentication=REQUIRED"
        )
    settings = SecuritySettings(
        method=method,
        realm=found[REALM] or "",
        roles=roles,
        tokens=_tokens(found) if method is Method.BEARER else None,
        certificate_rules=rules,
        skip_paths=tuple(found[SKIP_PATHS]),
        has_anonymous=found[ANONYMOUS],
        uses_acls=uses_acls,
        super_users=_super_users(found[SUPER_USERS] or ""),
        allow_if_no_acl=found[ALLOW_IF_NO_ACL],
        **_users(found, method, roles),
    )
    idle = [name for name in given if name.startswith(_TOKENS)] if method is not Method.BEARER else []
    if idle:
        raise ConfigError(f"{idle[0]} has no effect without {METHOD}=BEARER")
    return settings


def _check_classes(found: Mapping[str, Any]) -> None:
    """Raises ConfigError for classes of Java, which may decide what clients may do."""
    for name in EXTENSIONS:
        for each in found[name] or ():
            if each != _EXTENSION:
                raise ConfigError(
                    f"{name} names {each}, a class of Java that may decide what clients may do: remove it, and use a "
                    "proxy that checks them"
                )
    for each in found[INITIALIZERS] or ():
        if each not in _OAUTH_HANDLERS:
            raise ConfigError(
                f"{INITIALIZERS} names {each}, a class of Java that may decide who logs in: remove it, and set {METHOD}"
            )
    authorizer = found[AUTHORIZER]
    if authorizer is not None and authorizer != TOPIC_ACLS:
        raise ConfigError(
            f"{AUTHORIZER}={authorizer} has rules of its own, which are not read here: give clients ACLs on the topics "
            f"of their subjects, and set it to {TOPIC_ACLS}"
        )


def _method(found: Mapping[str, Any]) -> Method:
    method = Method((found[METHOD] or "NONE").upper())
    if not found[INITIALIZERS]:
        return method
    if method is Method.BASIC:
        raise ConfigError(f"{INITIALIZERS} and {METHOD}=BASIC are two logins: remove one")
    return Method.BEARER


def _users(found: Mapping[str, Any], method: Method, roles: frozenset[str]) -> dict[str, Any]:
    file, mechanism = found[USERS_FILE], found[USERS_MECHANISM]
    if method is not Method.BASIC:
        name = next((name for name in (USERS_FILE, USERS_MECHANISM) if found[name]), None)
        if name is not None:
            raise ConfigError(f"{name} has no effect without {METHOD}=BASIC")
        if roles:
            raise ConfigError(f"{ROLES}: only the users of {USERS_FILE} have roles")
        return {}
    if (file is None) == (mechanism is None):
        raise ConfigError(
            f"{METHOD}=BASIC needs either {USERS_FILE}, the file that PropertyFileLoginModule has in a JAAS file "
            f"(which is not read), or {USERS_MECHANISM}, the SASL mechanism by which the users of the cluster log in"
        )
    if mechanism is not None:
        if mechanism not in BY_PASSWORD:
            raise ConfigError(f"{USERS_MECHANISM}={mechanism} is not supported: use {', '.join(sorted(BY_PASSWORD))}")
        if roles:
            raise ConfigError(f"{ROLES}: the users of the cluster have no roles")
    return {"users_file": file, "users_mechanism": mechanism}


def _tokens(found: Mapping[str, Any]) -> OAuth:
    """Raises ConfigError, with the names that the file has."""

    def value(name: str) -> Any:
        return found[name.replace(_KAFKA_TOKENS, _TOKENS)]

    try:
        return required_tokens(f"{METHOD}=BEARER", value, check_url)
    except ConfigError as error:
        raise ConfigError(str(error).replace(_KAFKA_TOKENS, _TOKENS)) from None


def _rules(text: str) -> str:
    try:
        PrincipalMapper(text)
    except MappingError as error:
        raise ConfigError(f"{RULES}: {error}") from None
    return text


def _super_users(text: str) -> frozenset[str]:
    """Return principals: a name without a type is one of User."""
    names = (each.strip() for each in text.split(";"))
    return frozenset(name if ":" in name else f"User:{name}" for name in names if name)
