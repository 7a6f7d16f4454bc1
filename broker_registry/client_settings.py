"""Where a registry is, and the login there: from options, and from a file with the names of Confluent's clients.

    schema.registry.url=https://registry-1:8081,https://registry-2:8081
    basic.auth.user.info=alice:...              or bearer.auth.token=...
    schema.registry.ssl.truststore.location=... and the other names of Kafka's clients behind `schema.registry.`

Other settings of the file are those of other libraries, and are not read; those of security must be known.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from broker_cy.client.address import Address
from broker_cy.client.deadline import DEFAULT_TIMEOUT_S
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.security import PROTOCOL, tls_of
from broker_cy.core.config_def.types import ConfigError
from broker_cy.core.properties import read_properties_file

DEFAULT_URL: Final = "http://127.0.0.1:8081"
_PORTS: Final = {"http": 80, "https": 443}
_PREFIX: Final = "schema.registry."
_URL: Final = "schema.registry.url"
_SOURCE: Final = "basic.auth.credentials.source"
_USER_INFO: Final = "basic.auth.user.info"
_TOKEN_SOURCE: Final = "bearer.auth.credentials.source"
_TOKEN: Final = "bearer.auth.token"
# The one source of each login that is known here.
_SOURCES: Final = {_SOURCE: "USER_INFO", _TOKEN_SOURCE: "STATIC_TOKEN"}
_LOGINS: Final = ("basic.auth.", "bearer.auth.")


class RegistryUrl(NamedTuple):
    """`path` is what comes before the paths of the API, without a slash at its end."""

    text: str
    address: Address
    is_tls: bool
    path: str


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """`authorization` is the value of the header, a secret; `context` is for URLs with https."""

    urls: tuple[RegistryUrl, ...]
    timeout_s: float = DEFAULT_TIMEOUT_S
    authorization: str | None = field(default=None, repr=False)
    context: ssl.SSLContext | None = None


def parse_url(text: str) -> RegistryUrl:
    """Raises ValueError. A URL with a password is refused: other users of the host see options of a process."""
    text = text.strip().rstrip("/")
    parts = urlsplit(text)
    port = parts.port
    if parts.username is not None:
        raise ValueError(f"a URL must have no login: set {_USER_INFO} in a file")
    if parts.scheme not in _PORTS or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{text!r} is no URL of a registry, such as {DEFAULT_URL}")
    address = Address(parts.hostname, _PORTS[parts.scheme] if port is None else port)
    return RegistryUrl(text, address, parts.scheme == "https", parts.path)


def settings_of(urls: str | None, file: Path | None = None, timeout_s: float | None = None) -> RegistrySettings:
    """Return the settings of the options: `urls`, separated by commas, else those of the file. Raises ClientError."""
    try:
        found = {} if file is None else read_properties_file(file)
    except ConfigError as error:
        raise ClientError(Failure.INVALID, str(error)) from None
    return settings_from(found, str(file or "the registry"), urls=urls, timeout_s=timeout_s)


def settings_from(
    found: Mapping[str, str], where: str, *, urls: str | None = None, timeout_s: float | None = None
) -> RegistrySettings:
    """The same for settings that were read from `where`. Raises ClientError."""
    try:
        parsed = tuple(parse_url(each) for each in (urls or found.get(_URL) or DEFAULT_URL).split(","))
        authorization = _authorization(found)
    except ValueError as error:
        raise ClientError(Failure.INVALID, str(error), what="the registry") from None
    tls = {name[len(_PREFIX) :]: value for name, value in found.items() if name.startswith(f"{_PREFIX}ssl.")}
    context = tls_of({PROTOCOL: "SSL", **tls}, where) if any(each.is_tls for each in parsed) else None
    if tls and context is None:
        raise ClientError(Failure.INVALID, f"settings of TLS need a URL with https, not {parsed[0].text}", what=where)
    return RegistrySettings(parsed, DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s, authorization, context)


def _authorization(found: Mapping[str, str]) -> str | None:
    """Return the value of the header. Raises ValueError, which never shows a secret."""
    given = {name.removeprefix(_PREFIX): value for name, value in found.items()}
    for name, value in given.items():
        if name in _SOURCES and value.upper() != _SOURCES[name]:
            raise ValueError(f"{name}={value} is not supported: use {_SOURCES[name]}")
        if name.startswith(_LOGINS) and name not in (*_SOURCES, _USER_INFO, _TOKEN):
            raise ValueError(f"setting {name} is not supported")
    if _USER_INFO in given and _TOKEN in given:
        raise ValueError(f"{_USER_INFO} and {_TOKEN} are two logins: set one")
    if _USER_INFO in given:
        if ":" not in given[_USER_INFO]:
            raise ValueError(f"{_USER_INFO} must be USER:PASSWORD")
        return f"Basic {base64.b64encode(given[_USER_INFO].encode()).decode()}"
    return f"Bearer {given[_TOKEN]}" if _TOKEN in given else None
