"""TLS of outgoing connections: between nodes, and of the clients of this project.

Bytes do not count here as they do for clients of a broker, so this is Python's ssl, with the same readers of key stores
as the listeners. Checked are the chain of the server's certificate and, unless `ssl.endpoint.identification.algorithm`
is empty, the name or address that was connected to. Python's ssl has no call for the suites of TLS 1.3: all of them are
offered, or TLS 1.3 is not.
"""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from broker_cy.core.classes import NamedTuple
from broker_cy.security.tls.stores import ClientSettings, Identity, Read, StoreError, load_identity, load_trusted
from broker_cy.security.tls.suites import name_in_openssl

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_LINE_CHARACTERS: Final = 64


STORE_BYTES_MAX: Final = 16 << 20


def read_file(location: str, bytes_max: int = STORE_BYTES_MAX) -> bytes:
    """Raises OSError."""
    with Path(location).open("rb") as file:
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise OSError(None, f"larger than {bytes_max} bytes")
    return data


def file_version(location: str) -> tuple[int, ...] | None:
    """A value that changes when the file is written or replaced; None without a file."""
    try:
        found = os.stat(location)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def context_of(settings: ClientSettings, read: Read) -> ssl.SSLContext:
    """Raises StoreError."""
    return context_and_identity(settings, read)[0]


def context_and_identity(settings: ClientSettings, read: Read) -> tuple[ssl.SSLContext, Identity | None]:
    """The context of connections, and the identity that they show; None without a key store. Raises StoreError."""
    trusted = load_trusted(settings.stores, read)
    identity = load_identity(settings.stores, read)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = VERSIONS[settings.oldest]
    context.maximum_version = VERSIONS[settings.newest]
    context.check_hostname = settings.checks_host
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    if settings.ciphers:
        context.set_ciphers(":".join(known_cipher(name) for name in settings.ciphers))
    # As in Java, each certificate of a trust store is trusted, also one that others have signed.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        if trusted is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        else:
            context.load_verify_locations(cadata=b"".join(trusted))
    except ssl.SSLError as error:
        raise StoreError(f"the trust store cannot be used: {error.reason or error}") from None
    if identity is not None:
        show(context, identity)
    return context, identity


def known_cipher(name: str) -> str:
    """The name in OpenSSL of a suite of TLS 1.2. Raises StoreError: OpenSSL skips unknown ones in a list."""
    found = name_in_openssl(name)
    try:
        if found is not None:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers(found)
            return found
    except ssl.SSLError:
        pass
    raise StoreError(f"setting ssl.cipher.suites: the cipher suite {name} is not known")


class PemTexts(NamedTuple):
    """The same for a client that takes texts: the trusted certificates, None for those of the system; the key and its
    chain, None without one. The key is a secret.
    """

    trusted: str | None
    key: str | None
    chain: str | None


def pem_texts(settings: ClientSettings, read: Read) -> PemTexts:
    """Raises StoreError."""
    trusted = load_trusted(settings.stores, read)
    identity = load_identity(settings.stores, read)

    def certificates(found: Sequence[bytes]) -> str:
        return b"".join(_pem("CERTIFICATE", each) for each in found).decode()

    return PemTexts(
        None if trusted is None else certificates(trusted),
        None if identity is None else _pem("PRIVATE KEY", identity.key).decode(),
        None if identity is None else certificates(identity.chain),
    )


def show(context: ssl.SSLContext, identity: Identity) -> None:
    """Have connections show the certificate. Python's ssl reads keys from files only: this one is in memory. Raises
    StoreError.
    """
    text = _pem("PRIVATE KEY", identity.key) + b"".join(_pem("CERTIFICATE", each) for each in identity.chain)
    file = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        os.write(file, text)
        context.load_cert_chain(f"/proc/self/fd/{file}")
    except ssl.SSLError as error:
        fits = error.reason not in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH")
        why = error.reason or error if fits else "the private key does not fit the certificate"
        raise StoreError(f"the key store cannot be used: {why}") from None
    finally:
        os.close(file)


def _pem(kind: str, der: bytes) -> bytes:
    text = base64.b64encode(der).decode()
    lines = [text[at : at + _LINE_CHARACTERS] for at in range(0, len(text), _LINE_CHARACTERS)]
    return "\n".join((f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", "")).encode()
