"""The settings of TLS: the offers and requirements of listeners with SSL and SASL_SSL.

Kafka's rules: `listener.name.<name in small letters>.ssl.<setting>` replaces the setting without the prefix. On
listeners with SASL_SSL only `ssl.client.auth` with the prefix counts (KIP-684). Defaults that differ from Java's: TLS
1.2 offers only suites with forward secrecy and authenticated encryption, unless `ssl.cipher.suites` names others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from broker_cy.config.definitions import BROKER
from broker_cy.config.listeners import Listener
from broker_cy.core.classes import NamedTuple
from broker_cy.core.config_def.types import ConfigError, Password
from broker_cy.security.tls.principal import MappingError, PrincipalMapper
from broker_cy.security.tls.stores import NAMES as STORE_NAMES
from broker_cy.security.tls.stores import ClientSettings, StoreError, StoreSettings, check_settings, has_trusted
from broker_cy.security.tls.suites import SuitesError, split

PREFIX: Final = "listener.name."
PROTOCOLS: Final = frozenset({"SSL", "SASL_SSL"})
VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
CLIENT_AUTH: Final = "ssl.client.auth"
RULES: Final = "ssl.principal.mapping.rules"
DN_CHANGES: Final = "ssl.allow.dn.changes"
SAN_CHANGES: Final = "ssl.allow.san.changes"
ENDPOINT: Final = "ssl.endpoint.identification.algorithm"
# The settings that take effect, with and without the prefix of a listener; at the start only.
NAMES: Final = frozenset(
    {
        *STORE_NAMES.values(),
        CLIENT_AUTH,
        RULES,
        ENDPOINT,
        DN_CHANGES,
        SAN_CHANGES,
        "ssl.protocol",
        "ssl.enabled.protocols",
        "ssl.cipher.suites",
    }
)
SUITES: Final = "ssl.cipher.suites"


class TlsListener(NamedTuple):
    """The offer of one listener. `ciphers` (TLS 1.2) and `suites` (1.3) are None if the broker chooses them. `asks`:
    the listener requests a certificate from clients; `requires`: it refuses clients without one. `rules` map the name
    in the certificate; they are empty on a listener with SASL.
    """

    oldest: str
    newest: str
    ciphers: tuple[str, ...] | None
    suites: tuple[str, ...] | None
    asks: bool
    requires: bool
    rules: str
    stores: StoreSettings
    # A certificate that replaces ours may have another name, or lack some of the other names (KIP-978).
    allows_dn_changes: bool = False
    allows_san_changes: bool = False


class TlsSettings(NamedTuple):
    """`listeners` are those with TLS, by name. The next two are None where nodes use no TLS among themselves. `names`
    are those of listeners with TLS here and on other nodes, `names_to` those of the two between nodes.
    """

    listeners: Mapping[str, TlsListener]
    to_brokers: ClientSettings | None
    to_controllers: ClientSettings | None
    names: frozenset[str]
    names_to: tuple[str, str]

    @property
    def outgoing(self) -> Mapping[str, ClientSettings]:
        """How this node connects to others, by the name of their listener."""
        both = zip(self.names_to, (self.to_brokers, self.to_controllers), strict=True)
        return {name: settings for name, settings in both if settings is not None}


def is_served(name: str) -> bool:
    """Whether a setting with the prefix of a listener has an effect."""
    return name.removeprefix(PREFIX).partition(".")[2] in NAMES


def without_effect(properties: Mapping[str, str], names: Collection[str]) -> Iterator[str]:
    """The TLS settings in `properties` that apply to no listener; `names` are the listeners with TLS, here or
    elsewhere.
    """
    prefixes = tuple(f"{PREFIX}{name.lower()}." for name in names)
    for name in properties:
        if name.startswith(PREFIX):
            is_idle = is_served(name) and not name.startswith(prefixes)
        else:
            is_idle = name in NAMES and not names
        if is_idle:
            yield name


def is_of_the_start(name: str) -> bool:
    """Whether it is one of these settings with a prefix that cannot be changed while the broker runs; those without a
    prefix are refused by themselves.
    """
    return name.startswith(PREFIX) and is_served(name) and not is_of_a_store(name)


def is_of_a_store(name: str) -> bool:
    """Whether it names the key store or trust store of a listener: that may be changed while the broker runs."""
    return name.startswith(PREFIX) and name.removeprefix(PREFIX).partition(".")[2] in STORE_NAMES.values()


def check_changeable(name: str, settings: TlsSettings) -> None:
    """Check that the store of this listener may be changed while the broker runs. Raises ConfigError."""
    listener = name.removeprefix(PREFIX).partition(".")[0].upper()
    if listener not in settings.names:
        raise ConfigError(
            f"setting {name} cannot be changed while the broker runs: {listener} is no listener with TLS; change the "
            "file and restart it"
        )


def resolve(
    values: Mapping[str, Any],
    properties: Mapping[str, str],
    listeners: Iterable[Listener],
    inter_broker: tuple[str, str],
    controller: tuple[str, str],
) -> TlsSettings:
    """`listeners` are those of this node; the others are name and security protocol of the listener between brokers,
    which may be empty, and of that of the controllers. Raises ConfigError.
    """
    found = {each.name: _listener(values, properties, each) for each in listeners if each.protocol in PROTOCOLS}
    others = {name for name, protocol in (inter_broker, controller) if protocol in PROTOCOLS}
    return TlsSettings(
        found,
        _client(values, properties, *inter_broker),
        _client(values, properties, *controller),
        frozenset(found) | others,
        (inter_broker[0], controller[0]),
    )


def _client(
    values: Mapping[str, Any], properties: Mapping[str, str], name: str, protocol: str
) -> ClientSettings | None:
    """How this node connects to the listener `name` of others: with the key store and trust store of its own."""
    if protocol not in PROTOCOLS:
        return None
    oldest, newest = _versions(values, properties, name)
    stores = _stores(values, properties, name)
    try:
        check_settings(stores)
    except StoreError as error:
        raise ConfigError(f"listener {name}: {error}") from None
    algorithm = _value(values, properties, name, ENDPOINT)
    if algorithm and algorithm.lower() != "https":
        raise ConfigError(f"setting {ENDPOINT}={algorithm} is not supported: use https, or leave it empty")
    ciphers = None
    if named := _value(values, properties, name, SUITES):
        try:
            # The other node chooses the suites of TLS 1.3 (client.tls).
            ciphers, _, oldest, newest = split(named, oldest, newest)
        except SuitesError as error:
            raise ConfigError(f"listener {name}: {error}") from None
    allows_dn, allows_san = (_value(values, properties, name, each) for each in (DN_CHANGES, SAN_CHANGES))
    return ClientSettings(stores, oldest, newest, bool(algorithm), allows_dn, allows_san, ciphers)


def _stores(values: Mapping[str, Any], properties: Mapping[str, str], name: str) -> StoreSettings:
    found = {field: _value(values, properties, name, setting) for field, setting in STORE_NAMES.items()}
    return StoreSettings(**found)


def _listener(values: Mapping[str, Any], properties: Mapping[str, str], listener: Listener) -> TlsListener:
    where = f"listener {listener.name}: "
    oldest, newest = _versions(values, properties, listener.name)
    ciphers = suites = None
    if named := _value(values, properties, listener.name, SUITES):
        try:
            ciphers, suites, oldest, newest = split(named, oldest, newest)
        except SuitesError as error:
            raise ConfigError(f"{where}{error}") from None
    stores = _stores(values, properties, listener.name)
    rules = ""
    try:
        check_settings(stores)
        if listener.protocol == "SSL":
            rules = _value(values, properties, listener.name, RULES)
            PrincipalMapper(rules)
    except (StoreError, MappingError) as error:
        raise ConfigError(f"{where}{error}") from None
    if stores.keystore_location is None and stores.keystore_key is None:
        raise ConfigError(
            f"{where}{listener.protocol} needs a key and a certificate: set ssl.keystore.location, or ssl.keystore.key "
            "and ssl.keystore.certificate.chain"
        )
    client_auth = _client_auth(values, properties, listener)
    if client_auth != "none" and not has_trusted(stores):
        # Java would trust every authority that the machine trusts.
        raise ConfigError(
            f"{where}{CLIENT_AUTH}={client_auth} needs ssl.truststore.location or ssl.truststore.certificates, with "
            "the certificates that clients are checked against"
        )
    asks, requires = client_auth != "none", client_auth == "required"
    allowed = (_value(values, properties, listener.name, each) for each in (DN_CHANGES, SAN_CHANGES))
    return TlsListener(oldest, newest, ciphers, suites, asks, requires, rules, stores, *allowed)


def _client_auth(values: Mapping[str, Any], properties: Mapping[str, str], listener: Listener) -> str:
    if listener.protocol == "SASL_SSL" and f"{PREFIX}{listener.name.lower()}.{CLIENT_AUTH}" not in properties:
        return "none"
    found: str = _value(values, properties, listener.name, CLIENT_AUTH)
    return found.lower()


def _versions(values: Mapping[str, Any], properties: Mapping[str, str], name: str) -> tuple[str, str]:
    """The oldest and the newest version. `ssl.protocol` counts only if no versions are enabled, as in Java."""
    protocol = _value(values, properties, name, "ssl.protocol")
    if protocol not in ("TLS", *VERSIONS):
        raise ConfigError(f"setting ssl.protocol={protocol} is not supported: use TLSv1.3, TLSv1.2 or TLS")
    enabled = _value(values, properties, name, "ssl.enabled.protocols")
    if not enabled:
        return VERSIONS[0], VERSIONS[0] if protocol == "TLSv1.2" else VERSIONS[1]
    for version in enabled:
        if version not in VERSIONS:
            raise ConfigError(f"setting ssl.enabled.protocols: {version} is not supported: use {', '.join(VERSIONS)}")
    return min(enabled), max(enabled)


def _value(values: Mapping[str, Any], properties: Mapping[str, str], listener: str, setting: str) -> Any:
    """The typed value for a listener."""
    text = properties.get(f"{PREFIX}{listener.lower()}.{setting}")
    found = values[setting] if text is None else BROKER[setting].parse(text)
    return found.value if isinstance(found, Password) else found
