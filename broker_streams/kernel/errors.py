"""Errors of a task, and the handlers that decide about a record that cannot be read, processed or written (KIP-1034).

A handler is called as `(context, record, error)` and returns a Response, or only its Result. `record` is what failed:
the bytes that cannot be read, the record before a processor (None in a punctuation), the record before a sink.
"""

from __future__ import annotations

import enum
import logging
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from broker_streams.records import NO_HEADERS, Headers
from broker_streams.serdes import SerdeUnavailable

_LOG = logging.getLogger("broker_streams")

# A record for the producer: topic, partition, key, value, timestamp, headers. A partition of None is chosen by Kafka's
# default partitioner.
Output = tuple[str, int | None, bytes | None, bytes | None, int, Headers]


class StreamsError(RuntimeError):
    """A task cannot go on. The cause is the error of the user's function, serde or handler."""


class FailedProcessing(StreamsError):
    """A processor failed, and its handler was asked already: processors above it let the error pass."""

    def __init__(self, node: str, text: str | None = None) -> None:
        super().__init__(text or f"processor {node} failed")
        self.node = node
        self.is_final = text is not None


class RefusedRecord(Exception):
    """The cluster did not take a record. `code`: Kafka's name of the error, "" for one without a name. `retriable`: the
    same record may be taken later. The cause is the error of the client.
    """

    def __init__(self, text: str, *, code: str = "", retriable: bool = False) -> None:
        super().__init__(text)
        self.code, self.retriable = code, retriable


class Result(enum.Enum):
    """`RETRY` is for records that the cluster may take later (`RefusedRecord.retriable`); for all others it means FAIL.
    The tasks begin again at the last commit then (KIP-1065).
    """

    RESUME = "RESUME"
    FAIL = "FAIL"
    RETRY = "RETRY"


class Response(NamedTuple):
    """The decision, and records for dead letter topics, which are written in both cases."""

    result: Result
    dead_letters: tuple[Output, ...] = ()


class Origin(enum.Enum):
    """The part of a record that its serde refused."""

    KEY = "key"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class ErrorContext:
    """The place of an error. The topic is None, partition and offset are -1 in a punctuation, and for a record that the
    cluster refused: its input is not known any more.
    """

    node: str
    task_id: tuple[int, int]
    topic: str | None
    partition: int
    offset: int
    timestamp: int
    headers: Headers = NO_HEADERS
    # The bytes of the input record; of a record that the cluster refused: its own ones.
    raw_key: bytes | None = None
    raw_value: bytes | None = None
    # Set if a serde refused a record before a sink.
    origin: Origin | None = None
    dead_letter_topic: str | None = field(default=None, repr=False)

    @property
    def place(self) -> str:
        number, partition = self.task_id
        found = f"task {number}_{partition}, {self.node}"
        return found if self.topic is None else f"{found}, {self.topic}-{self.partition} at offset {self.offset}"

    def dead_letters(self, error: BaseException) -> tuple[Output, ...]:
        """The input record for errors.dead.letter.queue.topic.name, with Kafka's headers; without the setting none."""
        if self.dead_letter_topic is None:
            return ()
        kind = type(error)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        added = {
            "exception": name,
            "message": str(error),
            "stacktrace": "".join(traceback.format_exception(error)),
            "topic": self.topic,
            "partition": str(self.partition),
            "offset": str(self.offset),
        }
        headers = tuple(
            (f"__streams.errors.{key}", None if each is None else each.encode()) for key, each in added.items()
        )
        return ((self.dead_letter_topic, None, self.raw_key, self.raw_value, self.timestamp, self.headers + headers),)


Handler = Callable[[ErrorContext, Any, Exception], Response | Result]


def log_and_fail(context: ErrorContext, record: Any, error: Exception) -> Response:
    """End the task; a dead letter topic gets the record first."""
    _LOG.error("%s: %s: %s", context.place, type(error).__name__, error)
    return Response(Result.FAIL, context.dead_letters(error))


def log_and_continue(context: ErrorContext, record: Any, error: Exception) -> Response:
    """Skip the record; a dead letter topic gets it."""
    _LOG.warning("%s: the record is skipped: %s: %s", context.place, type(error).__name__, error)
    return Response(Result.RESUME, context.dead_letters(error))


def retry_or_fail(context: ErrorContext, record: Any, error: Exception) -> Response:
    """End the task, unless the cluster may take the record later."""
    if isinstance(error, RefusedRecord) and error.retriable:
        return Response(Result.RETRY)
    return log_and_fail(context, record, error)


# By the names of Kafka's classes, as the settings have them.
HANDLERS: Final[Mapping[str, Handler]] = {
    "LogAndFailExceptionHandler": log_and_fail,
    "LogAndContinueExceptionHandler": log_and_continue,
    "LogAndFailProcessingExceptionHandler": log_and_fail,
    "LogAndContinueProcessingExceptionHandler": log_and_continue,
    "DefaultProductionExceptionHandler": retry_or_fail,
}


def ask(handler: Handler, context: ErrorContext, record: Any, error: Exception, kind: str) -> Response:
    """Call a handler. Raises FailedProcessing: the handler failed, or returned something else; or the record has no
    fault, as a schema cannot be asked for now.
    """
    if isinstance(error, SerdeUnavailable):
        raise FailedProcessing(context.node, f"{context.place}: {error}") from error
    try:
        response = handler(context, record, error)
    except Exception as fatal:
        raise FailedProcessing(
            context.node, f"{context.place}: the handler of {kind} errors failed: {fatal}"
        ) from fatal
    if isinstance(response, Result):
        return Response(response)
    if not isinstance(response, Response):
        raise FailedProcessing(
            context.node, f"{context.place}: the handler of {kind} errors returned {response!r}, not a Response"
        )
    return response
