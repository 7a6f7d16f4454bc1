"""The settings of SASL: what listeners offer, and how this node logs in to others.

Kafka's rules: a setting of a listener is `listener.name.<name in small letters>.<setting>`, and replaces the setting
without the prefix; one of a mechanism is `listener.name.<name>.<mechanism in small letters>.<setting>`. The JAAS config
of a mechanism has only the last form, and each mechanism of a listener needs one; brokers log in with the one of their
inter-broker listener, and nodes at controllers with the one of the first of controller.listener.names.

They are read at the start, from the file alone: no change at run time is accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from broker_cy.config.definitions import BROKER
from broker_cy.config.listeners import Listener
from broker_cy.config.types import ConfigError
from broker_cy.core import fetch
from broker_cy.security import jaas
from broker_cy.security.jaas import JaasError
from broker_cy.security.sasl.exchange import Login, Passwords

PREFIX: Final = "listener.name."
JAAS: Final = "sasl.jaas.config"
ENABLED: Final = "sasl.enabled.mechanisms"
LIFETIME: Final = "connections.max.reauth.ms"
RECEIVE: Final = "sasl.server.max.receive.size"
INTER_BROKER: Final = "sasl.mechanism.inter.broker.protocol"
CONTROLLER: Final = "sasl.mechanism.controller.protocol"
HANDLER: Final = "sasl.server.callback.handler.class"
ALLOWED_URLS: Final = "brokercy.sasl.oauthbearer.allowed.urls"
_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_REFRESH: Final = "sasl.oauthbearer.jwks.endpoint.refresh.ms"
_BACKOFF: Final = "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"
_BACKOFF_MAX: Final = "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"
_AUDIENCE: Final = "sasl.oauthbearer.expected.audience"
_ISSUER: Final = "sasl.oauthbearer.expected.issuer"
_SCOPE: Final = "sasl.oauthbearer.scope.claim.name"
_SUBJECT: Final = "sasl.oauthbearer.sub.claim.name"
_SKEW: Final = "sasl.oauthbearer.clock.skew.seconds"
OAUTH: Final = frozenset(
    {_URL, _REFRESH, _BACKOFF, _BACKOFF_MAX, _AUDIENCE, _ISSUER, _SCOPE, _SUBJECT, _SKEW, ALLOWED_URLS}
)
# Those that take effect at the start only.
NAMES: Final = frozenset({JAAS, ENABLED, LIFETIME, RECEIVE, INTER_BROKER, CONTROLLER, HANDLER}) | OAUTH
_OF_LISTENER: Final = frozenset({ENABLED, LIFETIME, RECEIVE}) | OAUTH - {ALLOWED_URLS}
_OF_MECHANISM: Final = frozenset({JAAS, LIFETIME, HANDLER}) | OAUTH - {ALLOWED_URLS}
# Kafka's validator of signed tokens, which is what is served here; without it Kafka takes tokens without a signature.
_VALIDATORS: Final = frozenset(
    {
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
    }
)
PROTOCOLS: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})


class JwksEndpoint(NamedTuple):
    """Where the keys of an OAuth provider are, and when they are read again: after each interval, and after failures
    with a growing pause.
    """

    url: str
    refresh_s: float
    backoff_s: float
    backoff_s_max: float


class OAuth(NamedTuple):
    """What a listener demands of a token (security.jwt.JwtSettings)."""

    endpoint: JwksEndpoint
    audiences: frozenset[str]
    issuer: str | None
    scope_claim: str
    subject_claim: str
    skew_s: int


class SaslListener(NamedTuple):
    """What one listener offers. `lifetime_ms` of a session is by mechanism, 0: no limit; `users` are those of PLAIN,
    `oauth` is set with OAUTHBEARER.
    """

    mechanisms: tuple[str, ...]
    users: Passwords
    lifetime_ms: Mapping[str, int]
    receive_bytes_max: int
    oauth: OAuth | None = None


class SaslSettings(NamedTuple):
    """`listeners` are those with SASL, by name. The logins are None without SASL."""

    listeners: Mapping[str, SaslListener]
    to_brokers: Login | None
    to_controllers: Login | None


def base_of(name: str) -> tuple[str, str]:
    """Of a name with a listener's prefix: the setting, and the mechanism in small letters, empty if it has none."""
    rest = name.removeprefix(PREFIX).partition(".")[2]
    mechanism, _, setting = rest.partition(".")
    if rest not in BROKER and setting in BROKER:
        return setting, mechanism
    return rest, ""


def is_served(name: str) -> bool:
    """Whether a setting with the prefix of a listener has an effect."""
    setting, mechanism = base_of(name)
    return setting in (_OF_MECHANISM if mechanism else _OF_LISTENER)


def is_of_the_start(name: str) -> bool:
    """Whether it is one of these settings, with or without a prefix."""
    return (base_of(name)[0] if name.startswith(PREFIX) else name) in NAMES


def resolve(
    values: Mapping[str, Any],
    properties: Mapping[str, str],
    listeners: Iterable[Listener],
    inter_broker: tuple[str, str],
    controller: tuple[str, str],
) -> SaslSettings:
    """`listeners` are those of this node; the others are name and security protocol of the listener between brokers,
    which may be empty, and of that of the controllers. Raises ConfigError.
    """
    if JAAS in properties:
        raise ConfigError(
            f"setting {JAAS} must be prefixed with listener and mechanism: {PREFIX}LISTENER.MECHANISM.{JAAS}, in small "
            "letters"
        )
    found = {each.name: _listener(values, properties, each.name) for each in listeners if each.protocol in PROTOCOLS}
    to_brokers = to_controllers = None
    if inter_broker[1] in PROTOCOLS:
        mechanism = values[INTER_BROKER]
        if inter_broker[0] in found and mechanism not in found[inter_broker[0]].mechanisms:
            raise ConfigError(
                f"requirement failed: {INTER_BROKER} must be included in {ENABLED} when SASL is used for inter-broker "
                "communication"
            )
        to_brokers = _login(properties, inter_broker[0], INTER_BROKER, mechanism)
    if controller[1] in PROTOCOLS:
        to_controllers = _login(properties, controller[0], CONTROLLER, values[CONTROLLER])
    return SaslSettings(found, to_brokers, to_controllers)


def _listener(values: Mapping[str, Any], properties: Mapping[str, str], listener: str) -> SaslListener:
    mechanisms = _value(values, properties, listener, ENABLED)
    if not mechanisms:
        raise ConfigError(f"listener {listener} uses SASL, and {ENABLED} is empty")
    users = Passwords({})
    for mechanism in mechanisms:
        _check_mechanism(ENABLED, mechanism)
        text = _jaas_text(properties, listener, mechanism)
        try:
            jaas.check_server(mechanism, text)
            if mechanism == jaas.PLAIN:
                users = jaas.passwords(text)
        except JaasError as error:
            raise ConfigError(f"setting {_jaas_name(listener, mechanism)}: {error}") from None
    lifetime = {
        mechanism: max(0, _value(values, properties, listener, LIFETIME, mechanism)) for mechanism in mechanisms
    }
    receive_bytes_max = _value(values, properties, listener, RECEIVE)
    if receive_bytes_max <= 0:
        raise ConfigError(f"setting {RECEIVE}={receive_bytes_max}: it must be at least 1")
    oauth = _oauth(values, properties, listener) if jaas.OAUTHBEARER in mechanisms else None
    return SaslListener(tuple(mechanisms), users, lifetime, receive_bytes_max, oauth)


def is_validator(name: str, text: str) -> bool:
    """Whether this is the setting of the only callback handler that is served: that of tokens with a signature."""
    return base_of(name) == (HANDLER, jaas.OAUTHBEARER.lower()) and text.strip() in _VALIDATORS


def _oauth(values: Mapping[str, Any], properties: Mapping[str, str], listener: str) -> OAuth:
    """Raises ConfigError."""

    def value(setting: str) -> Any:
        return _value(values, properties, listener, setting, jaas.OAUTHBEARER)

    url = (value(_URL) or "").strip()
    if not url:
        raise ConfigError(
            f"listener {listener} has OAUTHBEARER: setting {_URL} is needed, without which nobody could check the "
            "signatures of tokens"
        )
    _check_url(url, values[ALLOWED_URLS])
    times_ms = {name: value(name) for name in (_REFRESH, _BACKOFF, _BACKOFF_MAX)}
    for name, time_ms in times_ms.items():
        if time_ms <= 0:
            raise ConfigError(f"setting {name}={time_ms}: it must be at least 1")
    claims = [(value(name) or "").strip() for name in (_SCOPE, _SUBJECT)]
    if not all(claims) or value(_SKEW) < 0:
        raise ConfigError(f"settings {_SCOPE} and {_SUBJECT} must not be empty, and {_SKEW} not below 0")
    return OAuth(
        JwksEndpoint(url, *(each / 1000 for each in times_ms.values())),
        frozenset(each.strip() for each in value(_AUDIENCE)),
        (value(_ISSUER) or "").strip() or None,
        claims[0],
        claims[1],
        value(_SKEW),
    )


def _check_url(url: str, allowed: Iterable[str]) -> None:
    """Raises ConfigError. As in Kafka since CVE-2025-27817, a URL has to be allowed as it is written."""
    if (wrong := fetch.wrong_with(url)) is not None:
        raise ConfigError(f"setting {_URL}={url}: {wrong}")
    if url not in {each.strip() for each in allowed}:
        raise ConfigError(f"setting {_URL}={url}: the URL is not allowed; {ALLOWED_URLS} has to contain it")


def has_login(values: Mapping[str, Any], properties: Mapping[str, str], listener: str) -> bool:
    """Whether there is a login for the listener between brokers."""
    return _jaas_name(listener, values[INTER_BROKER]) in properties


def _login(properties: Mapping[str, str], listener: str, setting: str, mechanism: str) -> Login:
    _check_mechanism(setting, mechanism, jaas.BY_PASSWORD)
    text = _jaas_text(properties, listener, mechanism)
    try:
        return jaas.login(mechanism, text)
    except JaasError as error:
        raise ConfigError(f"setting {_jaas_name(listener, mechanism)}: {error}") from None


def _check_mechanism(setting: str, mechanism: str, served: frozenset[str] = jaas.MECHANISMS) -> None:
    if mechanism not in served:
        raise ConfigError(
            f"setting {setting}: the mechanism {mechanism} is not supported yet: use {', '.join(sorted(served))}"
        )


def _value(
    values: Mapping[str, Any], properties: Mapping[str, str], listener: str, setting: str, mechanism: str = ""
) -> Any:
    """The typed value for a listener, and of a mechanism."""
    prefix = f"{PREFIX}{listener.lower()}."
    names = [f"{prefix}{mechanism.lower()}.{setting}"] if mechanism else []
    for name in (*names, prefix + setting):
        if name in properties:
            return BROKER[setting].parse(properties[name])
    return values[setting]


def _jaas_name(listener: str, mechanism: str) -> str:
    return f"{PREFIX}{listener.lower()}.{mechanism.lower()}.{JAAS}"


def _jaas_text(properties: Mapping[str, str], listener: str, mechanism: str) -> str:
    name = _jaas_name(listener, mechanism)
    text = properties.get(name)
    if text is None:
        raise ConfigError(f"listener {listener} uses SASL: setting {name} is needed, with {jaas.MODULES[mechanism]}")
    return text
