"""Key stores of the type JKS (and JCEKS, as far as its entries are certificates), as `keytool -storetype JKS` writes
them.

Format, all numbers big-endian: magic, version (1 or 2), number of entries; of each entry the type (1: private key, 2:
certificate), the alias, the time of creation; of a key its length, the key as EncryptedPrivateKeyInfo of an algorithm
of Sun's, and its chain; of a certificate its type (only in version 2), length and DER. At the end is a SHA-1 of the
password, a fixed text and all before it.

Sun's algorithm: a salt of 20 bytes, the key XORed with a stream of SHA-1 (each block the digest of the password and the
block before, the first of the password and the salt), and a SHA-1 of password and key, which tells whether the password
was right.

Bound: ENTRIES_MAX entries.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Final

from broker_cy.core.classes import NamedTuple

MAGIC: Final = 0xFEEDFEED
ENTRIES_MAX: Final = 10_000
_KEY, _CERTIFICATE = 1, 2
_DIGEST_BYTES: Final = 20
_WHITENER: Final = b"Mighty Aphrodite"
# 1.3.6.1.4.1.42.2.17.1.1
_SUN: Final = bytes.fromhex("060a2b060104012a02110101")


class JksError(ValueError):
    """The store is malformed, or the password is wrong."""


class Entry(NamedTuple):
    """A key is encrypted; of a certificate alone, `key` is None."""

    alias: str
    key: bytes | None
    chain: tuple[bytes, ...]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self._data):
            raise JksError("it ends too early")
        self.at += size
        return self._data[self.at - size : self.at]

    def number(self) -> int:
        found: int = struct.unpack(">I", self.take(4))[0]
        return found

    def text(self) -> str:
        return self.take(struct.unpack(">H", self.take(2))[0]).decode("utf-8", "replace")


def is_jks(data: bytes) -> bool:
    return data[:4] == struct.pack(">I", MAGIC)


def read_jks(data: bytes, password: str | None) -> list[Entry]:
    """Without a password the store is not checked, as in Java. Raises JksError."""
    reader = _Reader(data)
    if reader.number() != MAGIC:
        raise JksError("it is no key store of the type JKS")
    version = reader.number()
    if version not in (1, 2):
        raise JksError(f"version {version} is not known")
    count = reader.number()
    if count > ENTRIES_MAX:
        raise JksError(f"it has more than {ENTRIES_MAX} entries")
    entries = []
    for _ in range(count):
        kind = reader.number()
        alias = reader.text()
        reader.take(8)
        if kind == _KEY:
            key = reader.take(reader.number())
            chain_length = reader.number()
            if chain_length > ENTRIES_MAX:
                raise JksError("a chain is too long")
            entries.append(Entry(alias, key, tuple(_certificate(reader, version) for _ in range(chain_length))))
        elif kind == _CERTIFICATE:
            entries.append(Entry(alias, None, (_certificate(reader, version),)))
        else:
            raise JksError(f"an entry of the type {kind} is not supported")
    if password is not None:
        expected = hashlib.sha1(_utf16(password) + _WHITENER + data[: reader.at], usedforsecurity=False).digest()
        if not hmac.compare_digest(expected, reader.take(_DIGEST_BYTES)):
            raise JksError("the password is wrong, or the store is damaged")
    return entries


def _certificate(reader: _Reader, version: int) -> bytes:
    if version == 2:
        reader.text()
    return reader.take(reader.number())


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")


def decrypt_key(encrypted: bytes, password: str) -> bytes:
    """The private key (PKCS8, DER). Raises JksError."""
    at = encrypted.find(_SUN, 0, 64)
    if at < 0:
        raise JksError("the private key is encrypted in a way that is not supported")
    # Behind the algorithm and its empty parameters is the octet string; all that is before its content is a header.
    body = encrypted[at + len(_SUN) :].removeprefix(b"\x05\x00")
    if len(body) < 2 or body[0] != 0x04:
        raise JksError("the private key is malformed")
    size_bytes = body[1] & 0x7F if body[1] & 0x80 else 0
    body = body[2 + size_bytes :]
    salt, cipher, check = body[:_DIGEST_BYTES], body[_DIGEST_BYTES:-_DIGEST_BYTES], body[-_DIGEST_BYTES:]
    secret, digest, stream = _utf16(password), salt, bytearray()
    while len(stream) < len(cipher):
        digest = hashlib.sha1(secret + digest, usedforsecurity=False).digest()
        stream += digest
    key = bytes(a ^ b for a, b in zip(cipher, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), check):
        raise JksError("the password of the private key is wrong")
    return key
