"""The settings of SASL: the offer of each listener, and this node's login to other nodes.

Kafka's rules: a setting of a listener is `listener.name.<name in small letters>.<setting>`, and replaces the setting
without the prefix; one of a mechanism is `listener.name.<name>.<mechanism in small letters>.<setting>`. The JAAS config
of a mechanism has only the last form, and each mechanism of a listener needs one; brokers log in with the one of their
inter-broker listener, and nodes at controllers with the one of the first of controller.listener.names.

They are read at the start, from the file alone. Changes at run time are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from broker_cy.config import oauth
from broker_cy.config.definitions import BROKER
from broker_cy.config.listeners import Listener
from broker_cy.config.oauth import HANDLER, LOGIN_HANDLER
from broker_cy.core.classes import NamedTuple
from broker_cy.core.config_def.types import ConfigError
from broker_cy.security import jaas
from broker_cy.security.jaas import JaasError
from broker_cy.security.sasl.exchange import KerberosLogin, Login, Passwords
from broker_cy.security.sasl.oauthbearer import TokenEndpoint
from broker_cy.security.token_settings import OAuth

PREFIX: Final = "listener.name."
JAAS: Final = "sasl.jaas.config"
ENABLED: Final = "sasl.enabled.mechanisms"
LIFETIME: Final = "connections.max.reauth.ms"
RECEIVE: Final = "sasl.server.max.receive.size"
INTER_BROKER: Final = "sasl.mechanism.inter.broker.protocol"
CONTROLLER: Final = "sasl.mechanism.controller.protocol"
SERVICE: Final = "sasl.kerberos.service.name"
RULES: Final = "sasl.kerberos.principal.to.local.rules"
# The settings that take effect at the start only.
NAMES: Final = oauth.NAMES | frozenset(
    {JAAS, ENABLED, LIFETIME, RECEIVE, INTER_BROKER, CONTROLLER, HANDLER, LOGIN_HANDLER, SERVICE, RULES}
)
_OF_LISTENER: Final = frozenset({ENABLED, LIFETIME, RECEIVE, SERVICE, RULES}) | oauth.OF_LISTENER
_OF_MECHANISM: Final = frozenset({JAAS, LIFETIME, HANDLER, LOGIN_HANDLER}) | oauth.OF_LISTENER
PROTOCOLS: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})


class Kerberos(NamedTuple):
    """The key of a listener, and the rules that map principals of clients to users (security.kerberos)."""

    login: KerberosLogin
    rules: tuple[str, ...]


class SaslListener(NamedTuple):
    """The offer of one listener. `lifetime_ms` of a session is by mechanism, 0: no limit; `users` are those of PLAIN,
    `oauth` is set with OAUTHBEARER, `kerberos` with GSSAPI.
    """

    mechanisms: tuple[str, ...]
    users: Passwords
    lifetime_ms: Mapping[str, int]
    receive_bytes_max: int
    oauth: OAuth | None = None
    kerberos: Kerberos | None = None


# The login of a node to other nodes.
NodeLogin = Login | TokenEndpoint | KerberosLogin


class SaslSettings(NamedTuple):
    """`listeners` are those with SASL, by name. The logins are None without SASL."""

    listeners: Mapping[str, SaslListener]
    to_brokers: NodeLogin | None
    to_controllers: NodeLogin | None


def base_of(name: str) -> tuple[str, str]:
    """The setting in a name with a listener's prefix, and the mechanism in small letters, empty without a mechanism."""
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
        to_brokers = _login(values, properties, inter_broker[0], INTER_BROKER, mechanism)
    if controller[1] in PROTOCOLS:
        to_controllers = _login(values, properties, controller[0], CONTROLLER, values[CONTROLLER])
    return SaslSettings(found, to_brokers, to_controllers)


def _listener(values: Mapping[str, Any], properties: Mapping[str, str], listener: str) -> SaslListener:
    mechanisms = _value(values, properties, listener, ENABLED)
    if not mechanisms:
        raise ConfigError(f"listener {listener} uses SASL, and {ENABLED} is empty")
    users, kerberos = Passwords({}), None
    for mechanism in mechanisms:
        _check_mechanism(ENABLED, mechanism)
        text = _jaas_text(properties, listener, mechanism)
        try:
            jaas.check_server(mechanism, text)
            if mechanism == jaas.PLAIN:
                users = jaas.passwords(text)
            elif mechanism == jaas.GSSAPI:
                login = jaas.kerberos(text, _value(values, properties, listener, SERVICE), is_server=True)
                kerberos = Kerberos(login, tuple(_value(values, properties, listener, RULES)))
        except JaasError as error:
            raise ConfigError(f"setting {_jaas_name(listener, mechanism)}: {error}") from None
    lifetime = {
        mechanism: max(0, _value(values, properties, listener, LIFETIME, mechanism)) for mechanism in mechanisms
    }
    receive_bytes_max = _value(values, properties, listener, RECEIVE)
    if receive_bytes_max <= 0:
        raise ConfigError(f"setting {RECEIVE}={receive_bytes_max}: it must be at least 1")
    found = None
    if jaas.OAUTHBEARER in mechanisms:
        found = oauth.of_listener(listener, _value_of(values, properties, listener), values[oauth.ALLOWED_URLS])
    return SaslListener(tuple(mechanisms), users, lifetime, receive_bytes_max, found, kerberos)


def is_handler(name: str, text: str) -> bool:
    """Whether this is the setting of a callback handler that is served: those of OAUTHBEARER."""
    setting, mechanism = base_of(name)
    return mechanism == jaas.OAUTHBEARER.lower() and text.strip() in oauth.HANDLERS.get(setting, ())


def has_login(values: Mapping[str, Any], properties: Mapping[str, str], listener: str) -> bool:
    """Whether there is a login for the listener between brokers."""
    return _jaas_name(listener, values[INTER_BROKER]) in properties


def _login(
    values: Mapping[str, Any], properties: Mapping[str, str], listener: str, setting: str, mechanism: str
) -> NodeLogin:
    """The login of a node to nodes with this listener. Raises ConfigError."""
    _check_mechanism(setting, mechanism)
    text = _jaas_text(properties, listener, mechanism)
    try:
        if mechanism == jaas.GSSAPI:
            return jaas.kerberos(text, _value(values, properties, listener, SERVICE))
        if mechanism != jaas.OAUTHBEARER:
            return jaas.login(mechanism, text)
        jaas.check_server(mechanism, text)
    except JaasError as error:
        raise ConfigError(f"setting {_jaas_name(listener, mechanism)}: {error}") from None
    return oauth.of_node(listener, setting, _value_of(values, properties, listener), values[oauth.ALLOWED_URLS])


def _check_mechanism(setting: str, mechanism: str) -> None:
    if mechanism not in jaas.MECHANISMS:
        served = ", ".join(sorted(jaas.MECHANISMS))
        raise ConfigError(f"setting {setting}: the mechanism {mechanism} is not supported: use {served}")


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


def _value_of(values: Mapping[str, Any], properties: Mapping[str, str], listener: str) -> Callable[[str], Any]:
    """The settings of OAUTHBEARER of a listener."""
    return lambda setting: _value(values, properties, listener, setting, jaas.OAUTHBEARER)


def _jaas_name(listener: str, mechanism: str) -> str:
    return f"{PREFIX}{listener.lower()}.{mechanism.lower()}.{JAAS}"


def _jaas_text(properties: Mapping[str, str], listener: str, mechanism: str) -> str:
    name = _jaas_name(listener, mechanism)
    text = properties.get(name)
    if text is None:
        raise ConfigError(f"listener {listener} uses SASL: setting {name} is needed, with {jaas.MODULES[mechanism]}")
    return text
