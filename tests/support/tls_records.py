"""A TLS 1.3 client that sends arbitrary, correctly encrypted records after its handshake.

Python's ssl does the handshake, and writes the secret of the client's side to its key log (RFC 8446, section 7.3:
the key and the nonce come from it).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import ssl
import struct
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

ALERT: Final = 21
HANDSHAKE: Final = 22
APPLICATION_DATA: Final = 23
# KeyUpdate, of one byte: without or with a requested answer.
KEY_UPDATE: Final = b"\x18\0\0\1\0"
KEY_UPDATE_REQUESTED: Final = b"\x18\0\0\1\1"
_NONCE_BYTES: Final = 12


def _expanded(secret: bytes, label: bytes, size: int, digest: str) -> bytes:
    """HKDF-Expand-Label with an empty context."""
    full = b"tls13 " + label
    info = struct.pack(">HB", size, len(full)) + full + b"\0"
    found = b""
    block = b""
    while len(found) < size:
        block = hmac.digest(secret, block + info + bytes([len(found) // hashlib.new(digest).digest_size + 1]), digest)
        found += block
    return found[:size]


class RecordClient:
    """`record` makes records in their sending order; `socket` sends any bytes to the server."""

    def __init__(self, sock: socket.socket, cadata: str, scratch: Path) -> None:
        context = ssl.create_default_context(cadata=cadata)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        log = scratch / f"keys-{os.getpid()}-{sock.fileno()}"
        context.keylog_filename = str(log)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        shaking = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        self.socket = sock
        while True:
            try:
                shaking.do_handshake()
                sock.sendall(outgoing.read())
                break
            except ssl.SSLWantReadError:
                sock.sendall(outgoing.read())
                received = sock.recv(65_536)
                assert received, "the server ended the handshake"
                incoming.write(received)
        cipher = shaking.cipher()
        assert cipher is not None
        self._digest = "sha384" if cipher[0].endswith("SHA384") else "sha256"
        self._key_bytes = 32 if "256_GCM" in cipher[0] else 16
        assert "GCM" in cipher[0], cipher
        lines = [line.split() for line in log.read_text().splitlines()]
        log.unlink()
        self._use(bytes.fromhex(next(line[2] for line in lines if line[0] == "CLIENT_TRAFFIC_SECRET_0")))

    def _use(self, secret: bytes) -> None:
        self._secret = secret
        self._aead = AESGCM(_expanded(secret, b"key", self._key_bytes, self._digest))
        self._nonce = int.from_bytes(_expanded(secret, b"iv", _NONCE_BYTES, self._digest))
        self._number = 0

    def update(self) -> None:
        """Use the next keys, as after a KeyUpdate."""
        self._use(_expanded(self._secret, b"traffic upd", hashlib.new(self._digest).digest_size, self._digest))

    def record(self, content: bytes, kind: int = APPLICATION_DATA, padding: int = 0) -> bytes:
        """Return a record with this content and type, as it is sent."""
        plain = content + bytes([kind]) + bytes(padding)
        header = struct.pack(">BHH", APPLICATION_DATA, 0x0303, len(plain) + 16)
        nonce = (self._nonce ^ self._number).to_bytes(_NONCE_BYTES)
        self._number += 1
        return header + self._aead.encrypt(nonce, plain, header)

    def key_update(self, message: bytes = KEY_UPDATE) -> bytes:
        found = self.record(message, HANDSHAKE)
        self.update()
        return found
