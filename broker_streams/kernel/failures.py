"""Decisions of a task about records that fail: it asks the handlers of the settings, and writes dead letters."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable

from broker_cy.wire.record import Record as Input
from broker_streams.kernel.errors import (
    ErrorContext,
    FailedProcessing,
    Origin,
    Output,
    RefusedRecord,
    Response,
    Result,
    StreamsError,
    ask,
)
from broker_streams.kernel.processor import TaskState
from broker_streams.kernel.settings import TaskSettings
from broker_streams.records import Record, RecordMetadata

_LOG = logging.getLogger("broker_streams")

# How names of files of this package begin: those of compiled modules, and all others.
_OURS = ("broker_streams/", __file__.rpartition("kernel")[0])


class Failures:
    """One object for each task. `write` takes dead letters; None: the task has no producer, so they are lost."""

    def __init__(self, state: TaskState, settings: TaskSettings, write: Callable[[Output], None] | None) -> None:
        self._state = state
        self._settings = settings
        self._write = write

    def processing(self, node: str, record: Record | None, error: Exception) -> None:
        """Raises FailedProcessing: the handler chose to end the task."""
        context = self._context(node)
        response = self._asked(ask(self._settings.processing_handler, context, record, error, "processing"))
        if response.result is not Result.RESUME:
            raise FailedProcessing(node) from error
        self._state.dropped_records += 1

    def deserialization(self, node: str, topic: str, partition: int, found: Input, error: Exception) -> None:
        """Raises StreamsError: the handler chose to end the task."""
        context = ErrorContext(
            node,
            self._state.task_id,
            topic,
            partition,
            found.offset,
            found.timestamp,
            found.headers,
            found.key,
            found.value,
            None,
            self._settings.dead_letter_topic,
        )
        raw = (found.key, found.value, found.timestamp, found.offset, found.headers)
        response = self._asked(ask(self._settings.deserialization_handler, context, raw, error, "deserialization"))
        if response.result is not Result.RESUME:
            raise StreamsError(
                f"{context.place}: the record cannot be deserialized: {error}."
                " deserialization.exception.handler decides whether such records are skipped"
            ) from error
        self._state.dropped_records += 1

    def serialization(self, node: str, topic: str, origin: Origin, record: Record, error: Exception) -> None:
        """Raises StreamsError: the handler chose to end the task."""
        context = self._context(node, origin)
        response = self._asked(ask(self._settings.production_handler, context, record, error, "production"))
        if response.result is not Result.RESUME:
            raise StreamsError(
                f"{context.place}: the {origin.value} of a record for topic {topic} cannot be serialized: {error}"
            ) from error
        self._state.dropped_records += 1

    def refused(self, node: str, output: Output, error: RefusedRecord, *, has_letters: bool) -> Response:
        """The decision about a record that the cluster refused, and its dead letters, which the caller writes: they
        belong to the commit that the record belongs to. Without `has_letters` it has none. Raises StreamsError: the
        handler failed.
        """
        _, _, key, value, timestamp, headers = output
        settings = self._settings
        # A topic that refuses a value as too large would refuse the letter, too.
        value = None if error.code == "MESSAGE_TOO_LARGE" else value
        letters = settings.dead_letter_topic if has_letters else None
        context = ErrorContext(node, self._state.task_id, None, -1, -1, timestamp, headers, key, value, None, letters)
        response = ask(settings.production_handler, context, output, error, "production")
        if response.result is Result.RETRY and not error.retriable:
            _LOG.warning("%s: the handler returned RETRY for an error that stays: %s", context.place, error)
            response = response._replace(result=Result.FAIL)
        if not has_letters:
            return response._replace(dead_letters=())
        if response.result is Result.RESUME:
            self._state.dropped_records += 1
        return response

    def _asked(self, response: Response) -> Response:
        if self._write is not None:
            for each in response.dead_letters:
                self._write(each)
        return response

    def _context(self, node: str, origin: Origin | None = None) -> ErrorContext:
        state = self._state
        topic, partition, offset = state.metadata or (None, -1, -1)
        key, value = (None, None) if state.input is None else (state.input.key, state.input.value)
        return ErrorContext(
            node,
            state.task_id,
            topic,
            partition,
            offset,
            state.timestamp,
            state.headers,
            key,
            value,
            origin,
            self._settings.dead_letter_topic,
        )

    def describe(self, node: str, metadata: RecordMetadata | None, error: BaseException | None) -> str:
        """The text of the error that ends the task."""
        number, partition = self._state.task_id
        place = "" if metadata is None else f" for {metadata.topic}-{metadata.partition} at offset {metadata.offset}"
        why = "" if error is None else f": {type(error).__name__}: {error}{_line_of(error)}"
        return f"task {number}_{partition}: processor {node} failed{place}{why}"


def _line_of(error: BaseException) -> str:
    """The line of the user's function that failed: the first one below those of this package. "" without one."""
    found = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if file.startswith(_OURS):
            found = ""
        elif not found:
            found = f" ({file}, line {line})"
    return found
