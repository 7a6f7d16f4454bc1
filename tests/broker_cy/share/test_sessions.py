"""Share sessions: their epochs, their connections, and what ends with them."""

from __future__ import annotations

from uuid import UUID

import pytest

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.share import sessions as module
from broker_cy.share.sessions import SessionKey, ShareSessions, TopicPartition, bytes_each, next_epoch, rotated

A, B = SessionKey("g", "a"), SessionKey("g", "b")
PARTITIONS = [TopicPartition(UUID(int=1), number) for number in range(3)]


def refused(code: ErrorCode, sessions: ShareSessions, key: SessionKey, epoch: int) -> None:
    with pytest.raises(KafkaError) as error:
        sessions.take(key, epoch)
    assert error.value.code == code


def test_requests_count_the_epoch() -> None:
    """If this fails, a request that is sent twice is executed twice."""
    sessions = ShareSessions(10)
    sessions.open(A, 1, PARTITIONS[:1])
    refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH, sessions, A, 2)
    assert sessions.take(A, 1).epoch == 2
    refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH, sessions, A, 1)
    refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH, sessions, A, 0)
    refused(ErrorCode.SHARE_SESSION_NOT_FOUND, sessions, B, 1)
    refused(ErrorCode.SHARE_SESSION_NOT_FOUND, sessions, B, -1)
    assert sessions.take(A, -1).epoch == 2
    assert next_epoch(2**31 - 1) == 1


def test_a_fetch_changes_what_its_session_fetches() -> None:
    """If this fails, a member does not get the records of a new partition, or still those of an old one."""
    sessions = ShareSessions(10)
    sessions.open(A, 1, PARTITIONS[:2])
    session = sessions.update(A, 1, PARTITIONS[2:], PARTITIONS[:1])
    assert list(session.partitions) == PARTITIONS[1:]
    assert list(sessions.update(A, -1, PARTITIONS, ()).partitions) == PARTITIONS[1:]


def test_a_closed_session_names_what_to_release() -> None:
    """If this fails, the records of a member that leaves stay locked."""
    sessions = ShareSessions(10)
    sessions.open(A, 1, PARTITIONS)
    sessions.open(B, 1, PARTITIONS[:1])
    assert sessions.close(A) == (A, tuple(PARTITIONS), False)
    with pytest.raises(KafkaError, match="SHARE_SESSION_NOT_FOUND"):
        sessions.close(A)
    assert sessions.disconnect(1) == [(B, tuple(PARTITIONS[:1]), True)]
    assert (len(sessions), sessions.members("g")) == (0, 0)


def test_the_end_of_an_old_connection_keeps_the_new_session() -> None:
    """If this fails, a member that reconnects loses its session as soon as its old connection ends (KAFKA-19015)."""
    sessions = ShareSessions(10)
    sessions.open(A, 1, PARTITIONS)
    sessions.open(A, 2, PARTITIONS)
    assert sessions.disconnect(1) == []
    assert sessions.get(A) is not None
    assert [closed.key for closed in sessions.disconnect(2)] == [A]


def test_several_members_may_share_a_connection() -> None:
    """If this fails, only the last of them releases its records when the connection ends."""
    sessions = ShareSessions(10)
    sessions.open(A, 1, PARTITIONS)
    sessions.open(B, 1, PARTITIONS)
    sessions.open(A, 1, PARTITIONS)
    assert sessions.members("g") == 2
    assert {closed.key for closed in sessions.disconnect(1)} == {A, B}


def test_the_number_of_sessions_is_limited() -> None:
    """If this fails, clients exhaust the memory of the broker with sessions."""
    sessions = ShareSessions(1)
    sessions.open(A, 1, PARTITIONS)
    with pytest.raises(KafkaError, match="SHARE_SESSION_LIMIT_REACHED"):
        sessions.open(B, 1, PARTITIONS)
    assert sessions.open(A, 2, PARTITIONS).epoch == 1
    assert [closed.key for closed in sessions.clear()] == [A]


def test_each_fetch_begins_with_another_partition() -> None:
    """If this fails, a partition with many records takes the whole answer of each fetch."""
    assert [rotated(PARTITIONS, epoch)[0].partition for epoch in (0, 1, 2, 3, -1)] == [0, 1, 2, 0, 0]
    assert rotated([], 3) == []
    assert bytes_each(10, 3) == [4, 3, 3]
    assert bytes_each(2, 3) == [1, 1, 0]


def test_the_partitions_of_a_session_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a client exhausts the memory of the broker with topic ids that do not exist."""
    monkeypatch.setattr(module, "PARTITIONS_MAX", 2)
    sessions = ShareSessions(10)
    with pytest.raises(KafkaError, match="INVALID_REQUEST"):
        sessions.open(A, 1, PARTITIONS)
    sessions.open(A, 1, PARTITIONS[:2])
    with pytest.raises(KafkaError, match="INVALID_REQUEST"):
        sessions.update(A, 1, PARTITIONS[2:], ())
    assert list(sessions.update(A, 2, (), PARTITIONS[:1]).partitions) == PARTITIONS[1:2]


def test_an_answer_names_partitions_with_news() -> None:
    """If this fails, each answer to a consumer of many partitions names all of them, or an error is not sent."""
    sessions = ShareSessions(10)
    session = sessions.open(A, 1, PARTITIONS[:1])
    quiet, added = PARTITIONS[0], PARTITIONS[1]
    assert not session.is_answered(quiet, has_records=False, has_error=False)
    sessions.update(A, 1, [added], ())
    assert session.is_answered(added, has_records=False, has_error=False), "it is new"
    assert not session.is_answered(added, has_records=False, has_error=False)
    assert session.is_answered(quiet, has_records=False, has_error=True)
    assert session.is_answered(quiet, has_records=False, has_error=False), "the error is over"
    assert session.is_answered(quiet, has_records=True, has_error=False)
    assert list(session.partitions) == [added, quiet], "the others have their turn first"
