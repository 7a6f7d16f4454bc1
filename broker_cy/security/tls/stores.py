"""The key stores and trust stores in Kafka's settings (DefaultSslEngineFactory, KIP-651): our key and certificates, and
the trusted ones.

Three forms: a file of the type JKS or PKCS12, with a password (the type is found in the file, as Java does for these
two); a file of the type PEM; the same texts in the settings themselves. `read` reads the files. Messages contain no key
and no password.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Final

from broker_cy.core.classes import NamedTuple
from broker_cy.core.tls_version import WITHOUT_TLS
from broker_cy.security.tls.certificate import Certificate, CertificateError, read_certificate
from broker_cy.security.tls.jks import JksError, decrypt_key, is_jks, read_jks

PEM: Final = "PEM"
TYPES: Final = ("JKS", "PKCS12", PEM)
_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_KEY: Final = re.compile(rb"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)
# PEM in a file of properties: spaces may stand for line ends.
_LINE_CHARACTERS: Final = 64


class StoreError(ValueError):
    """The message names the problem, in Kafka's words if Kafka has some."""


class StoreSettings(NamedTuple):
    """Kafka's settings ssl.keystore.* and ssl.truststore.*; an unset one is None."""

    keystore_type: str = "JKS"
    keystore_location: str | None = None
    keystore_password: str | None = None
    key_password: str | None = None
    keystore_key: str | None = None
    certificate_chain: str | None = None
    truststore_type: str = "JKS"
    truststore_location: str | None = None
    truststore_password: str | None = None
    truststore_certificates: str | None = None

    def __repr__(self) -> str:
        return f"StoreSettings(keystore={self.keystore_location!r}, truststore={self.truststore_location!r})"


class ClientSettings(NamedTuple):
    """How a client connects. Without a trust store, the authorities that the system trusts are trusted; without a key
    store, no certificate is shown. `ciphers` are those of TLS 1.2 by their names in Java, None for those of OpenSSL.
    """

    stores: StoreSettings
    oldest: str = "TLSv1.2"
    newest: str = "TLSv1.3"
    checks_host: bool = True
    # For an exchange of stores (`check_exchange`).
    allows_dn_changes: bool = False
    allows_san_changes: bool = False
    ciphers: tuple[str, ...] | None = None


class Identity(NamedTuple):
    """Our key and the certificate of it, followed by those that lead to a root; in DER. `certificate` is that of the
    key.
    """

    key: bytes
    chain: tuple[bytes, ...]
    certificate: Certificate

    def __repr__(self) -> str:
        return f"Identity({self.certificate.subject!r})"


# Kafka's names of the settings, by field.
NAMES: Final = {
    "keystore_type": "ssl.keystore.type",
    "keystore_location": "ssl.keystore.location",
    "keystore_password": "ssl.keystore.password",
    "key_password": "ssl.key.password",
    "keystore_key": "ssl.keystore.key",
    "certificate_chain": "ssl.keystore.certificate.chain",
    "truststore_type": "ssl.truststore.type",
    "truststore_location": "ssl.truststore.location",
    "truststore_password": "ssl.truststore.password",
    "truststore_certificates": "ssl.truststore.certificates",
}
Read = Callable[[str], bytes]
_ReadPkcs12 = Callable[[bytes, bytes], tuple[bytes | None, list[bytes]]]


def check_settings(settings: StoreSettings) -> None:
    """Raises StoreError if the settings contradict each other."""
    for what, kind in (("keystore", settings.keystore_type), ("truststore", settings.truststore_type)):
        if kind.upper() not in TYPES:
            raise StoreError(f"setting ssl.{what}.type={kind} is not supported: use {', '.join(TYPES)}")
    _check_keystore(settings)
    _check_truststore(settings)


def _check_keystore(settings: StoreSettings) -> None:
    is_pem = settings.keystore_type.upper() == PEM
    if settings.keystore_key is not None:
        if not is_pem:
            raise StoreError(
                f"SSL private key can be specified only for PEM, but key store type is {settings.keystore_type}."
            )
        if settings.certificate_chain is None:
            raise StoreError("SSL private key is specified, but certificate chain is not specified.")
        if settings.keystore_location is not None:
            raise StoreError("Both SSL key store location and separate private key are specified.")
        if settings.keystore_password is not None:
            raise StoreError(
                "SSL key store password cannot be specified with PEM format, only key password may be specified."
            )
    elif settings.certificate_chain is not None:
        raise StoreError("SSL certificate chain is specified, but private key is not specified")
    elif settings.keystore_location is None:
        if settings.keystore_password is not None:
            raise StoreError("SSL key store is not specified, but key store password is specified.")
    elif is_pem and settings.keystore_password is not None:
        raise StoreError(
            "SSL key store password cannot be specified with PEM format, only key password may be specified"
        )
    elif not is_pem and settings.keystore_password is None:
        raise StoreError("SSL key store is specified, but key store password is not specified.")


def _check_truststore(settings: StoreSettings) -> None:
    is_pem = settings.truststore_type.upper() == PEM
    if settings.truststore_certificates is not None:
        if not is_pem:
            raise StoreError(
                "SSL trust store certs can be specified only for PEM, but trust store type is "
                f"{settings.truststore_type}."
            )
        if settings.truststore_location is not None:
            raise StoreError("Both SSL trust store location and separate trust certificates are specified.")
        if settings.truststore_password is not None:
            raise StoreError("SSL trust store password cannot be specified for PEM format.")
    elif settings.truststore_location is None:
        if settings.truststore_password is not None:
            raise StoreError("SSL trust store is not specified, but trust store password is specified.")
    elif is_pem and settings.truststore_password is not None:
        raise StoreError("SSL trust store password cannot be specified for PEM format.")


def files_of(settings: StoreSettings) -> tuple[str, ...]:
    return tuple(each for each in (settings.keystore_location, settings.truststore_location) if each is not None)


def load_identity(settings: StoreSettings, read: Read) -> Identity | None:
    """Our key and certificates; None if none are configured. Raises StoreError."""
    if settings.keystore_key is not None:
        assert settings.certificate_chain is not None  # check_settings
        key = _pem_key("ssl.keystore.key", settings.keystore_key.encode(), settings.key_password)
        chain = pem_certificates("ssl.keystore.certificate.chain", settings.certificate_chain.encode())
        return _identity("ssl.keystore.certificate.chain", key, chain)
    location = settings.keystore_location
    if location is None:
        return None
    where, data = f"ssl.keystore.location={location}", _read(read, "ssl.keystore.location", location)
    if settings.keystore_type.upper() == PEM:
        return _identity(where, _pem_key(where, data, settings.key_password), pem_certificates(where, data))
    password = settings.keystore_password or ""
    if is_jks(data):
        return _identity(where, *_jks_key(where, data, password, settings.key_password or password))
    found, certificates = _pkcs12(where, data, password)
    if found is None:
        raise StoreError(f"setting {where}: it has no private key")
    return _identity(where, found, certificates)


def load_trusted(settings: StoreSettings, read: Read) -> list[bytes] | None:
    """The trusted certificates; None if none are configured. Raises StoreError."""
    if settings.truststore_certificates is not None:
        return pem_certificates("ssl.truststore.certificates", settings.truststore_certificates.encode())
    location = settings.truststore_location
    if location is None:
        return None
    where, data = f"ssl.truststore.location={location}", _read(read, "ssl.truststore.location", location)
    if settings.truststore_type.upper() == PEM:
        return pem_certificates(where, data)
    if is_jks(data):
        try:
            found = [entry.chain[0] for entry in read_jks(data, settings.truststore_password) if entry.chain]
        except JksError as error:
            raise StoreError(f"setting {where}: {error}") from None
    else:
        _, found = _pkcs12(where, data, settings.truststore_password or "")
    if not found:
        raise StoreError(f"setting {where}: it has no certificate")
    return found


def check_exchange(
    old: tuple[StoreSettings, Identity | None],
    new: tuple[StoreSettings, Identity | None],
    *,
    allows_dn_changes: bool,
    allows_san_changes: bool,
) -> None:
    """Check Kafka's rule for stores that replace others while the node runs: a peer that checks the old certificate
    must accept the new one (KIP-226), unless one of the two settings of KIP-978 allows another. Raises StoreError.
    """
    (old_stores, before), (new_stores, after) = old, new
    if before is None and after is not None:
        raise StoreError("Cannot add SSL keystore to an existing listener for which no keystore was configured.")
    if before is not None and after is None:
        raise StoreError(
            "Cannot remove the SSL keystore from an existing listener for which a keystore was configured."
        )
    if not has_trusted(old_stores) and has_trusted(new_stores):
        raise StoreError("Cannot add SSL truststore to an existing listener for which no truststore was configured.")
    if before is None or after is None:
        return
    was, is_now = before.certificate, after.certificate
    if was.subject.lower() != is_now.subject.lower() and not allows_dn_changes:
        raise StoreError(
            f"Keystore DistinguishedName does not match: existing={was.subject}, new={is_now.subject}; "
            "ssl.allow.dn.changes allows it"
        )
    if not was.alternative_names <= is_now.alternative_names and not allows_san_changes:
        raise StoreError(
            "Keystore SubjectAltNames do not match: the new certificate lacks some of the names of the one before; "
            "ssl.allow.san.changes allows it"
        )


def has_trusted(settings: StoreSettings) -> bool:
    return settings.truststore_location is not None or settings.truststore_certificates is not None


def _read(read: Read, setting: str, location: str) -> bytes:
    try:
        return read(location)
    except OSError as error:
        raise StoreError(f"setting {setting}={location}: {error.strerror or error}") from None


def _identity(where: str, key: bytes, chain: list[bytes]) -> Identity:
    try:
        certificate = read_certificate(chain[0])
    except CertificateError as error:
        raise StoreError(f"setting {where}: a certificate cannot be read: {error}") from None
    return Identity(key, tuple(chain), certificate)


def _jks_key(where: str, data: bytes, password: str, key_password: str) -> tuple[bytes, list[bytes]]:
    try:
        for entry in read_jks(data, password):
            if entry.key is not None and entry.chain:
                return decrypt_key(entry.key, key_password), list(entry.chain)
    except JksError as error:
        raise StoreError(f"setting {where}: {error}") from None
    raise StoreError(f"setting {where}: it has no private key")


def _library(where: str) -> tuple[type[Exception], Callable[[bytes, bytes], bytes], _ReadPkcs12]:
    """The library that reads encrypted keys. It is optional: JKS and certificates are read without it."""
    try:
        from broker_cy.core.openssl import TlsError, read_key, read_pkcs12
    except ImportError:
        raise StoreError(f"setting {where}: OpenSSL reads such a key store, and {WITHOUT_TLS}") from None
    return TlsError, read_key, read_pkcs12


def _pkcs12(where: str, data: bytes, password: str) -> tuple[bytes | None, list[bytes]]:
    TlsError, _, read_pkcs12 = _library(where)
    try:
        return read_pkcs12(data, password.encode())
    except TlsError as error:
        text = "the password is wrong, or the store is damaged" if "mac" in str(error) else str(error)
        raise StoreError(f"setting {where}: {text}") from None


def pem_certificates(where: str, data: bytes) -> list[bytes]:
    """The certificates of a text in PEM, in DER. Raises StoreError without any."""
    found = []
    for each in _CERTIFICATE.findall(data):
        try:
            found.append(base64.b64decode(b"".join(each.split()), validate=True))
        except binascii.Error:
            raise StoreError(f"setting {where}: a certificate is not in Base64") from None
    if not found:
        raise StoreError(f"setting {where}: No certificate found in PEM format")
    return found


def _pem_key(where: str, data: bytes, password: str | None) -> bytes:
    TlsError, read_key, _ = _library(where)
    found = _KEY.search(data)
    if found is None:
        raise StoreError(f"setting {where}: No private key found in PEM format")
    kind = found.group(1)
    if kind == b"ENCRYPTED PRIVATE KEY" and password is None:
        raise StoreError(f"setting {where}: the private key is encrypted, and ssl.key.password is not set")
    try:
        return read_key(_lines(found.group(0)), (password or "").encode())
    except TlsError as error:
        text = "ssl.key.password is wrong" if password is not None else str(error)
        raise StoreError(f"setting {where}: the private key cannot be read: {text}") from None


def _lines(pem: bytes) -> bytes:
    """A text in PEM with line ends in place of spaces, which it has on one line of a properties file."""
    if b"Proc-Type" in pem:
        # The older way to encrypt, which has lines of its own.
        return pem
    _, begin, body, end, _ = pem.split(b"-----")
    text = b"".join(body.split())
    lines = [text[at : at + _LINE_CHARACTERS] for at in range(0, len(text), _LINE_CHARACTERS)]
    return b"\n".join((b"-----%s-----" % begin, *lines, b"-----%s-----" % end, b""))
