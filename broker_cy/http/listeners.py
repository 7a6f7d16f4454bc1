"""The listeners of a program that serves HTTP, by the settings of Confluent's servers: `listeners` and `ssl.*`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker_cy.client.address import parse_address
from broker_cy.core.classes import NamedTuple
from broker_cy.core.config_def.types import ConfigError, Password
from broker_cy.http.tls import ServerSettings
from broker_cy.security.tls.stores import NAMES as STORE_NAMES
from broker_cy.security.tls.stores import StoreError, StoreSettings, check_settings, has_trusted
from broker_cy.security.tls.suites import DEFAULT_OF_TLS_13, SuitesError, split

CLIENT_AUTH: Final = "ssl.client.auth"
CLIENT_AUTHENTICATION: Final = "ssl.client.authentication"
PROTOCOL_MAP: Final = "listener.protocol.map"
PROTOCOLS: Final = ("http", "https")


class Listener(NamedTuple):
    """An address to listen on."""

    host: str
    port: int
    is_tls: bool = False


def parse_listener(text: str, protocols: Mapping[str, str] | None = None, *, port: int) -> Listener:
    """Return the listener of `HOST:PORT`, `http://HOST:PORT` or `https://HOST:PORT`; `protocols` has those of other
    names before `://`, in lower case. `port` is the example in errors. Raises ConfigError.
    """
    scheme, slashes, address = text.rpartition("://")
    protocol = scheme.lower() if slashes else "http"
    protocol = (protocols or {}).get(protocol, protocol)
    if protocol not in PROTOCOLS:
        allowed = f", and {PROTOCOL_MAP} does not map it to one" if protocols is not None else "; http or https is"
        raise ConfigError(f"{text!r}: {scheme} is no protocol{allowed}")
    try:
        host, number = parse_address(address.rstrip("/"), port, needs_port=True, port_min=0, is_listener=True)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return Listener(host or "0.0.0.0", number, protocol == "https")


def tls_of(found: Mapping[str, Any]) -> ServerSettings | None:
    """Return the offer of listeners with https, from typed values by their names; None without a key store. Raises
    ConfigError.
    """
    texts = {field: found[name] for field, name in STORE_NAMES.items()}
    stores = StoreSettings(
        **{field: text.value if isinstance(text, Password) else text for field, text in texts.items()}
    )
    client = (found[CLIENT_AUTHENTICATION] or ("REQUIRED" if found[CLIENT_AUTH] else "NONE")).upper()
    has_key = stores.keystore_location is not None or stores.keystore_key is not None
    if not has_key:
        if client != "NONE":
            raise ConfigError(f"{CLIENT_AUTHENTICATION}={client} needs https: set ssl.keystore.location")
        return None
    if client != "NONE" and not has_trusted(stores):
        # Java would trust every authority that the machine trusts.
        raise ConfigError(f"{CLIENT_AUTHENTICATION}={client} needs ssl.truststore.location")
    enabled, newest = found["ssl.enabled.protocols"], found["ssl.protocol"]
    versions = enabled or (("TLSv1.2",) if newest == "TLSv1.2" else ("TLSv1.2", "TLSv1.3"))
    try:
        check_settings(stores)
        settings = ServerSettings(stores, min(versions), max(versions), client != "NONE", client == "REQUIRED")
        named = found["ssl.cipher.suites"]
        if not named:
            return settings
        ciphers, suites, oldest, newest = split(named, settings.oldest, settings.newest)
    except (StoreError, SuitesError) as error:
        raise ConfigError(str(error)) from None
    if suites and set(suites) != DEFAULT_OF_TLS_13:
        names = ", ".join(sorted(DEFAULT_OF_TLS_13))
        raise ConfigError(f"ssl.cipher.suites: of TLS 1.3 either all or none can be used: {names}")
    return settings._replace(ciphers=ciphers, oldest=oldest, newest=newest)
