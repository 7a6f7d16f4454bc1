"""Certificates (X.509, DER): their subject in Java's form, their validity, and their alternative names.

`subject` is what Java's X500Principal.getName() gives (RFC 2253), because ACLs and `super.users` name it: the last part
first, only the keywords of RFC 2253, any other type as its number with its value in hex
(`1.2.840.113549.1.9.1=#1603...`).

Foreign bytes are read through `_Der`, which knows its end; a certificate is at most CERTIFICATE_BYTES_MAX long, and
nested parts are read only to the depth of the format.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Final

from broker_cy.core.classes import NamedTuple

CERTIFICATE_BYTES_MAX: Final = 1 << 20

_SEQUENCE, _SET, _OID = 0x30, 0x31, 0x06
_VERSION, _EXTENSIONS = 0xA0, 0xA3
_BOOLEAN, _OCTETS = 0x01, 0x04
_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18
_ALTERNATIVE_NAMES: Final = bytes((0x55, 0x1D, 0x11))

# The keywords of RFC 2253.
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.6": "C",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# UTF8String, PrintableString, T61String, IA5String, GeneralString, UniversalString and BMPString: Java decodes all of
# them as UTF-8.
_STRINGS: Final = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E))
_ESCAPED: Final = ',=+<>#;"\\'
_SPACES: Final = " \r"


class CertificateError(ValueError):
    """The bytes are no certificate."""


class Certificate(NamedTuple):
    """`alternative_names` are in DER, each of them of the type GeneralName."""

    subject: str
    issuer: bytes
    subject_name: bytes
    not_after_ms: int
    alternative_names: frozenset[bytes]


class _Der:
    """Reads one value after the other."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    @property
    def has_more(self) -> bool:
        return self.at < len(self.data)

    def next(self) -> tuple[int, bytes, bytes]:
        """(tag, content, the whole value)."""
        start, data = self.at, self.data
        if start + 2 > len(data):
            raise CertificateError("it ends too early")
        size, at = data[start + 1], start + 2
        if size & 0x80:
            count = size & 0x7F
            if not 1 <= count <= 4 or at + count > len(data):
                raise CertificateError("a length is malformed")
            size = int.from_bytes(data[at : at + count])
            at += count
        if at + size > len(data):
            raise CertificateError("a value ends behind the end")
        self.at = at + size
        return data[start], data[at : self.at], data[start : self.at]

    def take(self, tag: int) -> bytes:
        found, content, _ = self.next()
        if found != tag:
            raise CertificateError(f"type {tag:#x} was expected and {found:#x} found")
        return content


def read_certificate(der: bytes) -> Certificate:
    """Raises CertificateError."""
    if len(der) > CERTIFICATE_BYTES_MAX:
        raise CertificateError(f"it is larger than {CERTIFICATE_BYTES_MAX} bytes")
    fields = _Der(_Der(_Der(der).take(_SEQUENCE)).take(_SEQUENCE))
    tag, _, _ = fields.next()
    if tag == _VERSION:
        fields.next()  # the serial number
    fields.take(_SEQUENCE)  # the algorithm of the signature
    issuer = fields.next()[2]
    validity = _Der(fields.take(_SEQUENCE))
    validity.next()
    tag, content, _ = validity.next()
    not_after_ms = _time_ms(tag, content)
    _, _, subject_name = fields.next()
    fields.take(_SEQUENCE)  # the public key
    names: frozenset[bytes] = frozenset()
    while fields.has_more:
        tag, content, _ = fields.next()
        if tag == _EXTENSIONS:
            names = frozenset(_alternative_names(_Der(_Der(content).take(_SEQUENCE))))
    return Certificate(name_of(subject_name), issuer, subject_name, not_after_ms, names)


def _alternative_names(extensions: _Der) -> Iterator[bytes]:
    while extensions.has_more:
        extension = _Der(extensions.take(_SEQUENCE))
        if extension.take(_OID) != _ALTERNATIVE_NAMES:
            continue
        tag, content, _ = extension.next()
        if tag == _BOOLEAN:
            content = extension.take(_OCTETS)
        names = _Der(_Der(content).take(_SEQUENCE))
        while names.has_more:
            yield names.next()[2]


def _time_ms(tag: int, content: bytes) -> int:
    text = content.decode("ascii", "replace")
    if tag == _UTC_TIME and len(text) == 13:
        # RFC 5280: years from 50 on are of the last century.
        text = ("19" if text[:2] >= "50" else "20") + text
    if tag not in (_UTC_TIME, _GENERALIZED_TIME) or not text.endswith("Z"):
        raise CertificateError("a time is malformed")
    try:
        parsed = datetime.datetime.strptime(text[:-1], "%Y%m%d%H%M%S").replace(tzinfo=datetime.UTC)
    except ValueError:
        raise CertificateError("a time is malformed") from None
    return int(parsed.timestamp()) * 1000


def name_of(name: bytes) -> str:
    """A name (DER) as Java writes it. Raises CertificateError."""
    parts = []
    names = _Der(_Der(name).take(_SEQUENCE))
    while names.has_more:
        values = _Der(names.take(_SET))
        found = []
        while values.has_more:
            value = _Der(values.take(_SEQUENCE))
            kind = _oid(value.take(_OID))
            tag, content, whole = value.next()
            found.append(_attribute(kind, tag, content, whole))
        parts.append("+".join(found))
    return ",".join(reversed(parts))


def _attribute(kind: str, tag: int, content: bytes, whole: bytes) -> str:
    keyword = _KEYWORDS.get(kind)
    if keyword is None or tag not in _STRINGS:
        return f"{keyword or kind}=#{whole.hex()}"
    text = content.decode("utf-8", "replace")
    escaped = [f"\\{each}" if each in _ESCAPED else "\\00" if each == "\0" else each for each in text]
    first, last = 0, len(escaped)
    while first < last and escaped[first] in _SPACES:
        escaped[first] = f"\\{escaped[first]}"
        first += 1
    while last > first and escaped[last - 1] in _SPACES:
        escaped[last - 1] = f"\\{escaped[last - 1]}"
        last -= 1
    return f"{keyword}={''.join(escaped)}"


def _oid(content: bytes) -> str:
    if not content or content[-1] & 0x80:
        raise CertificateError("a type is malformed")
    numbers, number = [], 0
    for each in content:
        number = number << 7 | each & 0x7F
        if not each & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
