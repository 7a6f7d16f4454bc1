"""Decisions about records that the cluster refuses: which ones are to blame, and what becomes of them.

The classes of errors are those of Kafka's RecordCollectorImpl 4.3.1. Kafka asks its handler about all records of a
batch with a bad one; here the others are written.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from broker_cy.admin import ClientError
from broker_cy.admin.produce import BATCH_BYTES_MAX
from broker_cy.client.errors import Failure
from broker_cy.core.errors import ErrorCode
from broker_streams.hosts.embedded.unwritten import Part, Place, Unwritten
from broker_streams.kernel.errors import Output, RefusedRecord, Result, StreamsError

_LOG = logging.getLogger("broker_streams")
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
# Errors of single records in a batch.
_OF_RECORDS: Final = (*_TOO_LARGE, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP)
# Errors that would meet every other record, too: no handler is asked.
_FATAL: Final = (
    ErrorCode.SASL_AUTHENTICATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.SECURITY_DISABLED,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


def is_fatal(error: ClientError) -> bool:
    return error.code in _FATAL or error.failure in (Failure.UNSUPPORTED, Failure.MALFORMED)


class Lost(Exception):
    """Nothing of this commit counts: the tasks begin again at the last one. `is_member`: the member is still one of the
    group.
    """

    def __init__(self, reason: str, *, is_member: bool = True) -> None:
        super().__init__(reason)
        self.is_member = is_member


class Retried(Lost):
    """The cluster does not take results now. The cause is the error of the client."""


class Refused(Exception):
    """A part was refused."""

    def __init__(self, place: Place, part: Part, error: ClientError) -> None:
        super().__init__(str(error))
        self.place, self.part, self.error = place, part, error


class Ended(StreamsError):
    """The handler chose to end the application. `letters` come first, unless they are a part of what does not count."""

    def __init__(self, text: str, letters: tuple[Output, ...]) -> None:
        super().__init__(text)
        self.letters = letters


def decide(unwritten: Unwritten, limits: dict[str, int], refused: Refused) -> None:
    """Cut a part that was refused, or ask the handlers about its records and drop them. Raises Ended, Retried;
    StreamsError: the handler failed.
    """
    place, part, error = refused.place, refused.part, refused.error
    topic, number = place
    if part not in unwritten.parts[place]:
        # Another partition of the topic has cut it already.
        return
    is_one = len(part.records) == 1
    if error.code in _TOO_LARGE and not is_one:
        limits[topic] = min(part.size_bytes // 2, limits.get(topic, BATCH_BYTES_MAX))
        unwritten.shrink(topic)
        return
    blamed: Iterable[int] = range(len(part.records))
    if error.code in _OF_RECORDS and not is_one:
        # The producer may have cut a part without a partition in another way.
        blamed = () if number is None else [index for index in set(error.records) if index < len(part.records)]
        if not blamed:
            unwritten.halve(place, part)
            return
    reason = RefusedRecord(str(error), code="" if error.code is None else error.code.name, retriable=error.retriable)
    reason.__cause__ = error
    dropped = []
    for index in sorted(blamed):
        _ask(unwritten, place, part, index, reason)
        dropped.append(index)
    _LOG.warning("%d records for topic %s were refused and are dropped: %s", len(dropped), topic, error)
    unwritten.drop(place, part, dropped)


def _ask(unwritten: Unwritten, place: Place, part: Part, index: int, reason: RefusedRecord) -> None:
    """Return if the record is dropped."""
    task, record = unwritten.task_of(place, part, index), part.records[index]
    if task is None:
        raise StreamsError(f"a record for topic {place[0]} was refused: {reason}") from reason
    output = (*place, record.key, record.value, record.timestamp, record.headers)
    response = task.refused(output, reason, has_letters=part.letter_of is None)
    if response.result is Result.RETRY:
        raise Retried(str(reason)) from reason.__cause__
    if response.result is Result.FAIL:
        text = f"a record for topic {place[0]} was refused: {reason}"
        why = "production.exception.handler decides about such records"
        raise Ended(f"{text}. {why}", response.dead_letters) from reason
    unwritten.add_letters(response.dead_letters, task)
