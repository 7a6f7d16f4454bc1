"""Cipher suites by their names in Java, as ssl.cipher.suites has them; those of TLS 1.3 are apart, as in OpenSSL."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from broker_cy.core.classes import NamedTuple

# The suites of TLS 1.3: all others are for TLS 1.2.
OF_TLS_13: Final = frozenset(
    {
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_AES_128_CCM_SHA256",
        "TLS_AES_128_CCM_8_SHA256",
    }
)
# The suites of TLS 1.3 that OpenSSL offers by default.
DEFAULT_OF_TLS_13: Final = frozenset({name for name in OF_TLS_13 if "CCM" not in name})
_NAME: Final = re.compile(r"TLS_(\w+)_WITH_(\w+)")
_HASH_OF_CHACHA20: Final = "_SHA256"


class SuitesError(ValueError):
    pass


class Suites(NamedTuple):
    """`ciphers` are for TLS 1.2, `suites` for 1.3; versions without a suite are not offered."""

    ciphers: tuple[str, ...]
    suites: tuple[str, ...]
    oldest: str
    newest: str


def split(named: Sequence[str], oldest: str, newest: str) -> Suites:
    """Raises SuitesError if no version from `oldest` to `newest` is left."""
    ciphers = tuple(name for name in named if name not in OF_TLS_13)
    suites = tuple(name for name in named if name in OF_TLS_13)
    if not suites and newest == "TLSv1.3":
        newest = "TLSv1.2"
    if not ciphers and oldest == "TLSv1.2":
        oldest = "TLSv1.3"
    if oldest > newest:
        raise SuitesError("ssl.cipher.suites has no suite of the versions in ssl.enabled.protocols")
    return Suites(ciphers, suites, oldest, newest)


def name_in_openssl(name: str) -> str | None:
    """OpenSSL's name of a suite of TLS 1.2: TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256. None
    for a text that is not such a name; OpenSSL may still not know the suite.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    exchange, cipher = found.groups()
    if cipher.startswith("CHACHA20"):
        cipher = cipher.removesuffix(_HASH_OF_CHACHA20)
    cipher = re.sub(r"^AES_(\d+)", r"AES\1", cipher).replace("_CBC", "").replace("CCM_8", "CCM8")
    parts = ([] if exchange == "RSA" else exchange.split("_")) + cipher.split("_")
    return "-".join(parts)
