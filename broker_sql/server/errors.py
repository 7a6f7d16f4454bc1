"""The errors of the REST API: HTTP status, error code and message, as clients of ksqlDB know them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

_DIGITS_OF_CODE: Final = 100


class Code(IntEnum):
    """Error codes of ksqlDB; the HTTP status is in the first three digits."""

    BAD_REQUEST = 40000
    BAD_STATEMENT = 40001
    QUERY_ENDPOINT = 40002
    MAX_PUSH_QUERIES = 40003
    UNAUTHORIZED = 40100
    FORBIDDEN = 40300
    FORBIDDEN_KAFKA = 40301
    NOT_FOUND = 40400
    METHOD_NOT_ALLOWED = 40500
    NOT_ACCEPTABLE = 40600
    TOO_LARGE = 41300
    ASSERTION_FAILED = 41700
    NO_REGISTRY = 42801
    TOO_MANY_REQUESTS = 42900
    SERVER_ERROR = 50000
    NOT_READY = 50302
    CATCH_UP_TIMEOUT = 50301


class ApiError(Exception):
    """An answer that is an error. With `statement`, it names the statement that failed, and `entities` are the answers
    to the statements before it. `headers` are those of the answer.
    """

    def __init__(
        self,
        code: Code,
        message: str,
        statement: str | None = None,
        entities: Sequence[Mapping[str, Any]] = (),
        headers: Iterable[tuple[bytes, bytes]] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        # Messages show parts of statements, whose escapes may be half of a surrogate pair.
        self.message = message.encode("utf-8", "replace").decode()
        self.statement = statement
        self.entities = list(entities)
        self.headers = list(headers)

    @property
    def status(self) -> int:
        return self.code // _DIGITS_OF_CODE

    def to_json(self) -> dict[str, Any]:
        if self.statement is None:
            return {"@type": "generic_error", "error_code": int(self.code), "message": self.message}
        return {
            "@type": "statement_error",
            "error_code": int(self.code),
            "message": self.message,
            "statementText": self.statement,
            "entities": self.entities,
        }


def bad_request(message: str) -> ApiError:
    return ApiError(Code.BAD_REQUEST, message)


def bad_statement(message: str, statement: str, entities: Sequence[Mapping[str, Any]] = ()) -> ApiError:
    return ApiError(Code.BAD_STATEMENT, message, statement, entities)
