"""The settings of the pages of an instance."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from broker_cy.client.address import Address, parse_address
from broker_streams.settings import read

SERVER: Final = "application.server"
LISTENER: Final = "brokercy.streams.listener"
TOKEN_FILE: Final = "brokercy.streams.token.file"
EVENTS: Final = "brokercy.streams.events"
NONE: Final = "none"
TOKEN_CHARS_MIN: Final = 16


@dataclass(frozen=True)
class SeenSettings:
    """`listener` None: no pages. `token` is what a request for rows of stores has to have; None: requests from this
    machine need none, and all others get no rows.
    """

    listener: Address | None = None
    token: str | None = None
    # brokercy.streams.events: changes of the instance are written into the events of the cluster.
    writes_events: bool = True

    @staticmethod
    def of(config: Mapping[str, Any]) -> SeenSettings:
        """Raises ValueError, which names the setting."""
        found = read(config)
        text = found.get(LISTENER) or found.get(SERVER) or ""
        listener = None
        if text and text.lower() != NONE:
            try:
                listener = parse_address(text, needs_port=True, port_min=0)
            except ValueError as error:
                raise ValueError(f"{LISTENER if found.get(LISTENER) else SERVER}: {error}") from None
        return SeenSettings(listener, _token(found.get(TOKEN_FILE)), found.get(EVENTS))

    @property
    def shows_rows(self) -> bool:
        """Whether rows of stores may be asked for: state is data of the application."""
        return self.token is not None or (self.listener is not None and is_loopback(self.listener.host))


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _token(given: Any) -> str | None:
    if given is None or not str(given):
        return None
    try:
        token = Path(str(given)).read_text("utf-8").strip()
    except (OSError, UnicodeError) as error:
        raise ValueError(f"{TOKEN_FILE}: {given} cannot be read: {error}") from None
    if len(token) < TOKEN_CHARS_MIN or not token.isascii() or any(map(str.isspace, token)):
        raise ValueError(
            f"{TOKEN_FILE}: {given} has no token; {TOKEN_CHARS_MIN} or more characters of ASCII without blanks are"
            " expected"
        )
    return token
