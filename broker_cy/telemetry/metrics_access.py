"""Access to the metrics listener: brokercy.metrics.token.file and brokercy.metrics.ssl.*.

The token file has one token in each line, of at least TOKEN_CHARS_MIN characters; empty lines, and those that begin
with #, do not count. A request carries a token as `Authorization: Bearer TOKEN` (RFC 6750). Tokens are kept as digests
and compared in constant time. The certificate is a PEM file, the chain with the server's own certificate first; its key
is in the same file or in another one.

Both are read again when a file has changed, so that tokens and certificates are replaced without a restart. An
unreadable or invalid file is ignored, the current tokens and certificate stay in use, and the error is logged once for
each change.

Bound: at most FILE_BYTES_MAX of each file are read, and a file is checked at most once per LOOK_S.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final

from broker_cy.client.tls import file_version, read_file
from broker_cy.network.sockets import ListenError

LOGGER = logging.getLogger("broker_cy.server.metrics")

TOKEN_FILE: Final = "brokercy.metrics.token.file"
CERTIFICATE: Final = "brokercy.metrics.ssl.certificate.file"
KEY: Final = "brokercy.metrics.ssl.key.file"
NAMES: Final = (TOKEN_FILE, CERTIFICATE, KEY)
TOKEN_CHARS_MIN: Final = 16
FILE_BYTES_MAX: Final = 1 << 20
LOOK_S: Final = 1.0
_SCHEME: Final = "bearer"


def access_of(settings: Mapping[str, Any], now_s: Callable[[], float]) -> MetricsAccess | None:
    """The configured access; None if any client may read all pages, unencrypted. Raises ListenError."""
    return MetricsAccess(settings, now_s) if any(settings[name] for name in NAMES) else None


class MetricsAccess:
    """Raises ListenError if a file cannot be read or does not fit. `now_s` is a monotonic clock."""

    def __init__(self, settings: Mapping[str, Any], now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._looked_s = now_s()
        self._token_file: str | None = settings[TOKEN_FILE] or None
        self._certificate: str | None = settings[CERTIFICATE] or None
        self._key: str | None = settings[KEY] or None
        if self._key and not self._certificate:
            raise ListenError(f"{KEY}={self._key}: {CERTIFICATE} is not set")
        self._seen = self._stamps()
        self._tokens = self._read_tokens()
        self.context: ssl.SSLContext | None = self._read_certificate()

    def refresh(self) -> None:
        """Look whether a file has changed, and read it again."""
        now_s = self._now_s()
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        stamps = self._stamps()
        if stamps == self._seen:
            return
        self._seen = stamps
        try:
            tokens, context = self._read_tokens(), self._read_certificate()
        except ListenError as error:
            LOGGER.warning("%s; the metrics listener keeps what it had", error)
            return
        self._tokens, self.context = tokens, context
        LOGGER.info("the files of the metrics listener were read again")

    def allows(self, authorization: str | None) -> bool:
        """Whether a request with this header Authorization may read everything."""
        if self._tokens is None:
            return True
        scheme, _, token = (authorization or "").partition(" ")
        digest = _digest(token.strip()) if scheme.lower() == _SCHEME else b""
        return any(hmac.compare_digest(digest, each) for each in self._tokens)

    def _stamps(self) -> tuple[object, ...]:
        return tuple(path and file_version(path) for path in (self._token_file, self._certificate, self._key))

    def _read_tokens(self) -> tuple[bytes, ...] | None:
        if self._token_file is None:
            return None
        tokens = []
        for number, line in enumerate(_read(TOKEN_FILE, self._token_file).splitlines(), 1):
            token = line.strip()
            if not token or token.startswith("#"):
                continue
            if len(token) < TOKEN_CHARS_MIN or not token.isascii() or any(char.isspace() for char in token):
                # Without the token, which is a secret.
                raise ListenError(
                    f"{TOKEN_FILE}={self._token_file}: line {number} is no token; one has at least {TOKEN_CHARS_MIN} "
                    "ASCII characters, and no space"
                )
            tokens.append(_digest(token))
        if not tokens:
            raise ListenError(f"{TOKEN_FILE}={self._token_file}: there is no token in it")
        return tuple(tokens)

    def _read_certificate(self) -> ssl.SSLContext | None:
        if self._certificate is None:
            return None
        for name, path in ((CERTIFICATE, self._certificate), (KEY, self._key)):
            if path:
                _read(name, path)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET | ssl.OP_CIPHER_SERVER_PREFERENCE
        # The suites of TLS 1.2; all of TLS 1.3 are allowed.
        context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")

        def encrypted() -> str:
            raise ListenError(f"{KEY}={self._key or self._certificate}: the private key is encrypted; none may be")

        try:
            context.load_cert_chain(self._certificate, self._key, password=encrypted)
        except ssl.SSLError as error:
            files = self._certificate if self._key is None else f"{self._certificate}, {KEY}={self._key}"
            reason = error.reason.replace("_", " ").lower() if error.reason else "no certificate, or no private key"
            raise ListenError(f"{CERTIFICATE}={files}: {reason}") from None
        return context


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _read(name: str, path: str) -> str:
    """Raises ListenError."""
    try:
        return read_file(path, FILE_BYTES_MAX).decode()
    except OSError as error:
        raise ListenError(f"{name}={path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ListenError(f"{name}={path}: is no text") from None
