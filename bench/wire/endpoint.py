"""Addresses of targets, and sockets connected to them: with TLS and a login if the target requires them.

The security of a target is a file with settings of Kafka's clients, so that generators in other programs can read it,
and no secret is in a process list, a report or a message between processes.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Final

from bench.wire.framing import exactly, frame
from broker_cy.client.errors import ClientError
from broker_cy.client.login import ClientLogin, exchange_tokens
from broker_cy.client.security import OPEN, ClientSecurity, librdkafka_settings, read_command_config, security_of
from broker_cy.security.sasl.exchange import LoginFailed

ANSWER_BYTES_MAX: Final = 1 << 20  # of a login


class Endpoint(tuple[str, int]):
    """Host and port; `client_config` is the file with its clients' security settings, None without any."""

    client_config: Path | None

    def __new__(cls, host: str, port: int, client_config: Path | None = None) -> Endpoint:
        made = super().__new__(cls, (host, port))
        made.client_config = client_config
        return made

    def __getnewargs__(self) -> tuple[str, int, Path | None]:
        return self[0], self[1], self.client_config

    @property
    def text(self) -> str:
        """Return it as in `bootstrap.servers`."""
        host, port = self
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def config_of(address: tuple[str, int]) -> Path | None:
    """Return the file with the settings of the clients of an address."""
    return address.client_config if isinstance(address, Endpoint) else None


@cache
def check_config(path: Path) -> ClientSecurity:
    """Read a file with settings of a Kafka client. Raises OSError."""
    try:
        return security_of(read_command_config(path), str(path))
    except ClientError as error:
        raise OSError(str(error)) from None


def write_config(settings: Mapping[str, str], path: Path) -> Path:
    """Write settings of a Kafka client to a file that only this user can read. Raises OSError."""
    lines = [f"{name}={_escaped(value)}\n" for name, value in settings.items()]
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.writelines(lines)
    return path


def _escaped(value: str) -> str:
    """Return a value as Java reads it from a properties file: ASCII, and the units of UTF-16 of other signs."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    units = text.encode("utf-16-be")
    codes = [units[at] << 8 | units[at + 1] for at in range(0, len(units), 2)]
    return "".join(chr(code) if code < 128 else f"\\u{code:04x}" for code in codes)


def for_librdkafka(address: tuple[str, int]) -> dict[str, str]:
    """Return librdkafka's security settings; some are secrets. Raises OSError."""
    if (path := config_of(address)) is None:
        return {}
    try:
        return librdkafka_settings(read_command_config(path), str(path))
    except ClientError as error:
        raise OSError(str(error)) from None


def connect(address: tuple[str, int], timeout_s: float) -> socket.socket:
    """Return a connected socket, after the handshake and the login; for TLS it is an ssl.SSLSocket. Raises OSError."""
    path = config_of(address)
    security = OPEN if path is None else check_config(path)
    sock = socket.create_connection(address, timeout_s)
    # Otherwise the first request waits 40 ms for the acknowledgement of the end of the handshake.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        if security.tls is not None:
            sock = security.tls.wrap_socket(sock, server_hostname=address[0])
        if security.login is not None:
            _log_in(sock, security.login, address[0])
    except BaseException:
        sock.close()
        raise
    return sock


def _log_in(sock: socket.socket, login: ClientLogin, host: str) -> None:
    try:
        exchange_tokens(login, login.begin(host), partial(_ask, sock))
    except LoginFailed as error:
        raise ConnectionRefusedError(f"the login failed: {error}") from None


def _ask(sock: socket.socket, key: int, version: int, body: bytes) -> memoryview:
    """Send a request whose headers are not flexible; returns the body of the response. Raises OSError."""
    sock.sendall(frame(key, version, body, flexible=False))
    (size,) = struct.unpack(">i", exactly(sock, 4))
    if not 4 <= size <= ANSWER_BYTES_MAX:
        raise ConnectionResetError(f"a response of {size} bytes to a login")
    return memoryview(exactly(sock, size))[4:]
