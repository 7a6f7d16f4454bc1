"""The errors of the REST API: HTTP status, error code and message, as clients of Confluent's registry know them.

A code has the status in its first three digits; 404, 409, 422 and 500 without more digits are general.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final


class Code(IntEnum):
    """Error codes of Confluent's registry 8.x."""

    UNAUTHORIZED = 40101
    ACCESS_DENIED = 40301
    SUBJECT_NOT_FOUND = 40401
    VERSION_NOT_FOUND = 40402
    SCHEMA_NOT_FOUND = 40403
    SUBJECT_SOFT_DELETED = 40404
    SUBJECT_NOT_SOFT_DELETED = 40405
    VERSION_SOFT_DELETED = 40406
    VERSION_NOT_SOFT_DELETED = 40407
    SUBJECT_COMPATIBILITY_NOT_CONFIGURED = 40408
    SUBJECT_MODE_NOT_CONFIGURED = 40409
    # Releases from 8.1.2 on answer 40901; the suites of clients expect the plain status of those before.
    INCOMPATIBLE_SCHEMA = 409
    INVALID_SCHEMA = 42201
    INVALID_VERSION = 42202
    INVALID_COMPATIBILITY_LEVEL = 42203
    INVALID_MODE = 42204
    OPERATION_NOT_PERMITTED = 42205
    REFERENCE_EXISTS = 42206
    ID_DOES_NOT_MATCH = 42207
    INVALID_SUBJECT = 42208
    SCHEMA_TOO_LARGE = 42209
    INVALID_RULE_SET = 42210
    CONTEXT_NOT_EMPTY = 42211
    STORE = 50001
    TIMED_OUT = 50002
    FORWARDING_FAILED = 50003
    UNKNOWN_LEADER = 50004


STATUS_DIGITS: Final = 3


class RegistryError(Exception):
    """An answer that is an error. `code` is one of Code, or the status itself for general errors; `retry_s` is when the
    client may try again, if the answer says so; `methods` are those of the resource, if the request has another one.
    """

    def __init__(self, code: int, message: str, retry_s: int | None = None, methods: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.code = int(code)
        # Messages show parts of schemas, whose escapes may be half of a surrogate pair.
        self.message = message.encode("utf-8", "replace").decode()
        self.retry_s = retry_s
        self.methods = tuple(methods)

    @property
    def status(self) -> int:
        return int(str(self.code)[:STATUS_DIGITS])


def unauthorized() -> RegistryError:
    """The same for a missing and a wrong login."""
    return RegistryError(Code.UNAUTHORIZED, "Unauthorized")


def access_denied(operation: str, what: str) -> RegistryError:
    """The client may not do `operation` to `what`. The answer does not depend on whether a subject exists."""
    return RegistryError(Code.ACCESS_DENIED, f"User is denied operation {operation} on {what}")


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(Code.SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RegistryError:
    return RegistryError(Code.VERSION_NOT_FOUND, f"Version {version} not found.")


def schema_not_found(name: int | str | None = None) -> RegistryError:
    return RegistryError(Code.SCHEMA_NOT_FOUND, "Schema not found" if name is None else f"Schema {name} not found")


def invalid_version(version: str) -> RegistryError:
    return RegistryError(
        Code.INVALID_VERSION,
        f"The specified version '{version}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"',
    )


def invalid_subject(subject: str) -> RegistryError:
    return RegistryError(Code.INVALID_SUBJECT, f"The specified subject '{subject}' is not a valid.")


def invalid_schema(message: str) -> RegistryError:
    return RegistryError(Code.INVALID_SCHEMA, message)


def not_permitted(message: str) -> RegistryError:
    return RegistryError(Code.OPERATION_NOT_PERMITTED, message)


def reference_exists(subject: str, version: int) -> RegistryError:
    """The key is named in the form in which Confluent's registry prints it."""
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return RegistryError(Code.REFERENCE_EXISTS, f"One or more references exist to the schema {key}.")
