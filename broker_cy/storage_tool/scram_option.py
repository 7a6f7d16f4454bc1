"""The option --add-scram of `broker-cy storage format`, with the form and the messages of Kafka's ScramParser:

SCRAM-SHA-256=[name=alice,password=alice-secret]
SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Final

from broker_cy.controller import scram_ops
from broker_cy.core import scram

if TYPE_CHECKING:
    from broker_cy.core.randomness import Randomness
    from broker_cy.metadata.records import VersionedRecord

# Kafka's salt is a random number of this many bits in base 36, as text.
SALT_BITS: Final = 130
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


class ScramOptionError(Exception):
    """The value of the option is wrong; the message is Kafka's."""


def records_of(values: list[str], randomness: Randomness) -> list[VersionedRecord]:
    """The records of the credentials, in the order of the options, and of the secret that belongs to them. Raises
    ScramOptionError.
    """
    found = [_record(value, randomness) for value in values]
    return [*found, scram_ops.secret_record(randomness.take_bytes(scram_ops.SECRET_BYTES))] if found else []


def _record(value: str, randomness: Randomness) -> VersionedRecord:
    value = value.strip()
    name, equals, rest = value.partition("=")
    if not equals:
        raise ScramOptionError(f"Failed to find equals sign in SCRAM argument '{value}'")
    mechanism = scram.of_name(name)
    if mechanism is None:
        raise ScramOptionError(f"The add-scram mechanism {name} is not supported.")
    if not rest.startswith("["):
        raise ScramOptionError("Expected configuration string to start with [")
    if not rest.endswith("]"):
        raise ScramOptionError("Expected configuration string to end with ]")
    return _Parts(mechanism, rest[1:-1]).record(randomness)


class _Parts:
    """The text between the brackets."""

    def __init__(self, mechanism: scram.Mechanism, text: str) -> None:
        found = dict(map(_component, _split(text)))
        self._mechanism = mechanism
        name = found.pop("name", None)
        if name is None:
            raise ScramOptionError("You must supply 'name' to add-scram")
        self._name = name
        salt = found.pop("salt", None)
        self._salt = None if salt is None else _decoded(salt, f"Failed to decode given salt: {salt}")
        self._iterations = _iterations(found.pop("iterations", None))
        self._password = found.pop("password", None)
        salted = found.pop("saltedpassword", None)
        self._salted: bytes | None = None
        if self._password is None:
            if salted is None:
                raise ScramOptionError("You must supply one of 'password' or 'saltedpassword' to add-scram")
            if self._salt is None:
                raise ScramOptionError("You must supply 'salt' with 'saltedpassword' to add-scram")
            self._salted = _decoded(salted, f"Failed to decode given saltedPassword: {salted}")
        if found:
            raise ScramOptionError(f"Unknown SCRAM configurations: {', '.join(sorted(found))}")

    def record(self, randomness: Randomness) -> VersionedRecord:
        if self._iterations < scram.ITERATIONS_MIN:
            raise self._beyond(">=", scram.ITERATIONS_MIN)
        if self._iterations > scram.ITERATIONS_MAX:
            raise self._beyond("<=", scram.ITERATIONS_MAX)
        salt = _new_salt(randomness) if self._salt is None else self._salt
        salted = self._salted
        if salted is None:
            assert self._password is not None
            salted = scram.salted_password(self._mechanism, self._password, salt, self._iterations)
        try:
            return scram_ops.credential(self._mechanism, self._name, salt, salted, self._iterations)
        except ValueError as error:
            raise ScramOptionError(f"Failed to use given saltedPassword: {error}") from error

    def _beyond(self, relation: str, limit: int) -> ScramOptionError:
        mechanism = self._mechanism.name.replace("-", "_")
        return ScramOptionError(f"The 'iterations' value must be {relation} {limit} for add-scram using {mechanism}")


def _split(text: str) -> list[str]:
    """As Java splits: without the empty strings at the end."""
    parts = text.split(",")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


def _component(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ScramOptionError(f"No equals sign found in SCRAM component: {text}")
    if len(value) >= 2 and value.startswith('"') and value.endswith('"'):
        value = value[1:-1]
    return name, value


def _decoded(text: str, problem: str) -> bytes:
    """As Java decodes Base64: the padding may be left out."""
    try:
        return base64.b64decode(text if "=" in text else text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ScramOptionError(problem) from None


def _iterations(text: str | None) -> int:
    if text is None:
        return scram.ITERATIONS_DEFAULT
    if _INTEGER.fullmatch(text) is None or not -(2**31) <= int(text) < 2**31:
        raise ScramOptionError(f"Failed to parse iterations count: {text}")
    return int(text)


def _new_salt(randomness: Randomness) -> bytes:
    number = randomness.integer(0, 2**SALT_BITS - 1)
    text = ""
    while number or not text:
        number, digit = divmod(number, len(_DIGITS))
        text = _DIGITS[digit] + text
    return text.encode()
