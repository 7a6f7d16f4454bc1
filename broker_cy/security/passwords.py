"""Comparison of a client's password with the right one, which takes the same work for an unknown user."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

# A longer password is wrong.
PASSWORD_BYTES_MAX: Final = 4_096


def is_equal(given: str, expected: str | None, key: bytes) -> bool:
    """Return whether the password is the expected one; None stands for an unknown user. `key` keys the digests: any
    bytes that clients do not know. The time shows neither the right password nor whether the user exists
    (CVE-2021-38153).
    """
    data = given.encode(errors="surrogatepass")
    right = b"" if expected is None else expected.encode(errors="surrogatepass")
    same = hmac.compare_digest(_digest(data, key), _digest(right, key))
    return same and expected is not None and len(data) <= PASSWORD_BYTES_MAX


def _digest(password: bytes, key: bytes) -> bytes:
    # The work depends on the length of the client's password, not on that of the right one: both are shorter than the
    # hashed block.
    return hashlib.blake2b(password.ljust(PASSWORD_BYTES_MAX, b"\0"), key=key).digest()
