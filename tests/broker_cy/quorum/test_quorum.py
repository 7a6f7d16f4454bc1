"""The quorum of one: elections, the durable state, and the high watermark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_cy.core import uuid as uuids
from broker_cy.quorum.election_state import ElectionState, QuorumError
from broker_cy.quorum.quorum import PREDECESSORS, Quorum, Role

# What Kafka 4.3.1 wrote on a single node.
KAFKA_V0 = (
    b'{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1}],"data_version":0}'
)
KAFKA_V1 = b'{"leaderId":1,"leaderEpoch":7,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'


@pytest.mark.parametrize("content", [KAFKA_V0, KAFKA_V1])
def test_quorum_state_is_kafkas_byte_for_byte(content: bytes) -> None:
    """If this fails, Kafka would not start on a directory that this broker used, or the other way round."""
    assert ElectionState.from_json(content).to_json() == content


def test_quorum_state_fields() -> None:
    """If this fails, an epoch or a vote would be read from the wrong field and given twice."""
    state = ElectionState.from_json(KAFKA_V0)
    assert (state.epoch, state.leader_id, state.voted_id, state.voters) == (1, 1, -1, (1,))
    state = ElectionState.from_json(KAFKA_V1)
    assert (state.epoch, state.leader_id, state.voters, state.voted_directory_id) == (7, 1, None, uuids.ZERO)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b'{"data_version":2}', b'{"data_version":0,"leaderEpoch":"x"}']
)
def test_broken_quorum_state_is_refused(content: bytes) -> None:
    """If this fails, the broker is taken for a new node, and would reuse epochs."""
    with pytest.raises(QuorumError, match="quorum-state"):
        ElectionState.from_json(content)


def test_first_start_and_restart_raise_the_epoch() -> None:
    """If this fails, two leaders in one epoch could write different entries at the same offset and epoch."""
    first = Quorum(1, None, 0)
    assert first.role is Role.UNATTACHED
    elected = first.elect(static_voters=True)
    assert (elected.epoch, elected.persist.voters, first.role) == (1, (1,), Role.LEADER)

    again = Quorum(1, elected.persist, 1)
    assert again.role is Role.RESIGNED
    assert again.elect(static_voters=True).epoch == 2


def test_epoch_of_the_log_counts_even_if_the_file_is_lost() -> None:
    """If this fails, without quorum-state, the epoch would be lower than that of entries in the log."""
    assert Quorum(1, None, 9).elect(static_voters=True).epoch == 10


def test_other_voters_are_refused() -> None:
    """If this fails, one node of a larger quorum would continue alone and split it."""
    with pytest.raises(QuorumError, match=r"voters \[1, 2, 3\]"):
        Quorum(1, ElectionState(4, voters=(1, 2, 3)), 4)
    with pytest.raises(QuorumError, match="only a quorum whose sole voter"):
        Quorum(1, ElectionState(4, voters=None), 4, log_voters=(2,))


def test_high_watermark_waits_for_the_own_epoch() -> None:
    """If this fails, entries of an older epoch would count as committed before the leader's own are on disk."""
    quorum = Quorum(1, ElectionState(1, 1, voters=(1,)), 1)
    quorum.elect(static_voters=True)
    quorum.began_epoch(50)
    assert quorum.synced(50) == 0
    assert quorum.synced(51) == 51
    assert quorum.synced(60) == 60


def test_resigned_leader_commits_nothing() -> None:
    """If this fails, after a failed write the broker would still answer that changes are committed."""
    quorum = Quorum(1, None, 0)
    quorum.elect(static_voters=True)
    quorum.began_epoch(0)
    assert quorum.synced(5) == 5
    quorum.resign()
    assert quorum.synced(9) == 5
    assert quorum.elect(static_voters=True).epoch == 2


def test_illegal_transition_is_caught() -> None:
    """If this fails, a leader that stands for election again would raise the epoch under its own writes."""
    quorum = Quorum(1, None, 0)
    quorum.elect(static_voters=True)
    with pytest.raises(AssertionError, match="may not be followed"):
        quorum.elect(static_voters=True)
    assert set(PREDECESSORS) == set(Role)


@given(st.lists(st.integers(0, 100), max_size=20))
def test_high_watermark_never_falls(ends: list[int]) -> None:
    """If this fails, a client would see a topic appear and vanish again."""
    quorum = Quorum(1, None, 0)
    quorum.elect(static_voters=True)
    quorum.began_epoch(10)
    seen = 0
    for end in ends:
        mark = quorum.synced(end)
        assert mark >= seen
        assert mark <= quorum.synced_end
        seen = mark
