"""quorum-state, and the quorum of one: its election, its output and the high watermark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_cy.core import uuid as uuids
from broker_cy.quorum.election_state import ElectionState, QuorumError
from broker_cy.quorum.entries import Batch, Leadership
from broker_cy.quorum.epochs import LogEpochs
from broker_cy.quorum.state import PREDECESSORS
from broker_cy.quorum.step import DURABILITY_ORDER, Append, NotLeaderError, NotWritten, Output, Role, Start, Stop
from broker_cy.quorum.voters import ReplicaKey
from tests.broker_cy.quorum.voters import StaticVoter

# Kafka 4.3.1 wrote this file on a single node.
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
    """If this fails, the broker is treated as a new node, and reuses epochs."""
    with pytest.raises(QuorumError, match="quorum-state"):
        ElectionState.from_json(content)


def test_the_only_voter_leads_with_the_first_event() -> None:
    """If this fails, a single node would not start, or would append before its epoch is on disk."""
    assert StaticVoter().first == Output(
        Role.LEADER,
        epoch=1,
        leader_id=1,
        high_watermark=0,
        persist=ElectionState(1, 1, voters=(1,)),
        append=(Batch(0, 1, 1, None, (Leadership(1, (ReplicaKey(1),), (ReplicaKey(1),)),)),),
        binds=True,
    )
    assert DURABILITY_ORDER == ("persist", "truncate_to", "replace_log", "append", "chunk", "send")


def test_restart_raises_the_epoch() -> None:
    """If this fails, two leaders in one epoch could write different entries at the same offset and epoch."""
    stored = StaticVoter().first.persist
    again = StaticVoter(stored=stored, log=LogEpochs(1, [(1, 0)]))
    assert (again.first.role, again.first.epoch) == (Role.LEADER, 2)
    assert again.first.append[0].offset == 1


def test_epoch_of_the_log_counts_even_if_the_file_is_lost() -> None:
    """If this fails, without quorum-state, the epoch would be lower than that of entries in the log."""
    assert StaticVoter(log=LogEpochs(40, [(9, 30)])).first.epoch == 10


def test_high_watermark_waits_for_the_own_epoch() -> None:
    """If this fails, entries of an older epoch would count as committed before the leader's own are on disk."""
    voter = StaticVoter(stored=ElectionState(1, 1, voters=(1,)), log=LogEpochs(50, [(1, 0)]))
    assert voter.synced(50).high_watermark == 0
    assert voter.synced(51).high_watermark == 51
    voter.append(4, 5)
    assert voter.quorum.high_watermark == 51
    assert voter.synced(60).high_watermark == 60


def test_only_the_leader_appends_at_the_end_of_its_log() -> None:
    """If this fails, records of a controller that lost its epoch, or that missed entries, would be appended."""
    voter = StaticVoter()
    output = voter.append(3)
    assert output.append == (Batch(1, 4, 1, b""),)
    assert output.persist is None
    for epoch, offset in ((0, 4), (2, 4), (1, 3), (1, 5)):
        with pytest.raises(NotLeaderError, match=f"offset {offset} in epoch {epoch}"):
            voter.quorum.step(Append(epoch, offset, ()), 0)


def test_what_could_not_be_written_is_not_committed() -> None:
    """If this fails, after a full disk the offsets of the log and of the quorum would differ."""
    voter = StaticVoter()
    voter.synced()
    voter.append(5)
    output = voter.quorum.step(NotWritten(1), voter.now_ms)
    assert (output.role, voter.quorum.end_offset, output.high_watermark) == (Role.LEADER, 1, 1)
    assert voter.append(2).append == (Batch(1, 3, 1, b""),)
    assert voter.synced(3).high_watermark == 3


def test_a_leader_without_its_first_entry_leads_nothing() -> None:
    """If this fails, a node would append records to an epoch that has no Leadership, which no reader expects."""
    voter = StaticVoter()
    assert voter.quorum.step(NotWritten(0), voter.now_ms).role is Role.RESIGNED
    with pytest.raises(NotLeaderError):
        voter.append(1)


def test_stopped_voter_commits_nothing() -> None:
    """If this fails, after a failed sync the broker would still answer that changes are committed."""
    voter = StaticVoter()
    voter.append(4)
    assert voter.synced(5).high_watermark == 5
    output = voter.quorum.step(Stop(), voter.now_ms)
    # quorum-state stays: after a restart this node must not lead the epoch again.
    assert (output.role, output.persist) == (Role.CLOSED, None)
    assert voter.synced(5) == output
    assert voter.quorum.step(Start(), voter.now_ms) == output
    with pytest.raises(NotLeaderError, match="has stopped"):
        voter.append(1)


def test_each_role_names_its_predecessors() -> None:
    """If this fails, an unintended transition between roles goes unnoticed."""
    assert set(PREDECESSORS) == set(Role)
    assert PREDECESSORS[Role.LEADER] == {Role.CANDIDATE}
    state = StaticVoter().quorum._state
    with pytest.raises(AssertionError, match="may not be followed"):
        state.become(Role.CANDIDATE)


@given(st.lists(st.integers(0, 100), max_size=20))
def test_high_watermark_never_falls(ends: list[int]) -> None:
    """If this fails, a client would see a topic appear and vanish again."""
    voter = StaticVoter(log=LogEpochs(10, [(1, 0)]))
    voter.append(89)
    seen = 0
    for end in ends:
        mark = voter.synced(end).high_watermark
        assert mark == (max(seen, end) if end > 10 else seen)
        seen = mark
