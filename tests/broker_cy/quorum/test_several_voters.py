"""One of several voters, message by message: elections, replication, and data that must be on disk before a message
leaves.
"""

from __future__ import annotations

from uuid import UUID

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.quorum.election_state import ElectionState
from broker_cy.quorum.elections import PRE_VOTE, VOTE
from broker_cy.quorum.entries import Batch, Leadership, OffsetAndEpoch
from broker_cy.quorum.epochs import LogEpochs
from broker_cy.quorum.messages import (
    begin_request,
    begin_response,
    end_request,
    end_response,
    fetch_request,
    fetch_response,
    vote_request,
    vote_response,
)
from broker_cy.quorum.step import Answer, LeaderGone, NotWritten, Output, Role, Send, Tick
from broker_cy.quorum.voters import ReplicaKey
from broker_cy.wire import messages as wire
from tests.broker_cy.quorum.voters import WAIT_MS, StaticVoter, answers, end_of, fetch_to, keys, sent

THREE = (1, 2, 3)
END = OffsetAndEpoch(0, 0)


def tick(voter: StaticVoter, after_ms: int) -> Output:
    voter.now_ms += after_ms
    return voter.quorum.step(Tick(), voter.now_ms)


def grant(voter: StaticVoter, source: int, epoch: int, *, pre_vote: bool) -> Output:
    """The voter `source` of `epoch` has granted its vote."""
    return voter.receive(source, vote_response(epoch, -1, True), PRE_VOTE if pre_vote else VOTE)


def leader(voters: tuple[int, ...] = THREE) -> StaticVoter:
    """Voter 1 as the leader of epoch 1, with its Leadership on disk."""
    voter = StaticVoter(voters)
    tick(voter, 1000)
    for pre_vote in (True, False):
        for other in voters[1:]:
            grant(voter, other, 0 if pre_vote else 1, pre_vote=pre_vote)
    assert voter.quorum.role is Role.LEADER
    voter.synced()
    return voter


def follower(log: LogEpochs | None = None, epoch: int = 1) -> tuple[StaticVoter, Send]:
    """Voter 1 as a follower of voter 2, and its first fetch."""
    voter = StaticVoter(THREE, log=log)
    return voter, fetch_to(voter.receive(2, begin_request(2, epoch)), 2)


def answer(voter: StaticVoter, fetch: Send, *batches: Batch, high_watermark: int = 0) -> Output:
    """Leader 2 of epoch 1 has answered a fetch."""
    return voter.receive(2, fetch_response(1, 2, high_watermark), fetch.correlation, *batches)


def test_election_by_pre_vote_and_vote() -> None:
    """If this fails, a node leads without a majority, or announces itself before its vote is on disk."""
    voter = StaticVoter(THREE)
    assert voter.first == Output(Role.UNATTACHED, 0, -1, 0, persist=ElectionState(0, voters=THREE), wake_ms=2000)
    assert tick(voter, 999).role is Role.UNATTACHED
    asks = tuple(
        Send(to, vote_request(ReplicaKey(1), 0, END, pre_vote=True, voter=ReplicaKey(to)), PRE_VOTE) for to in (2, 3)
    )
    assert tick(voter, 1) == Output(Role.PROSPECTIVE, 0, -1, 0, send=asks, wake_ms=3000)
    assert grant(voter, 2, 0, pre_vote=True) == Output(
        Role.CANDIDATE,
        1,
        -1,
        0,
        persist=ElectionState(1, voted_id=1, voters=THREE),
        send=tuple(
            Send(to, vote_request(ReplicaKey(1), 1, END, pre_vote=False, voter=ReplicaKey(to))) for to in (2, 3)
        ),
        wake_ms=3000,
        binds=True,
    )
    # A pre-vote that arrives late does not count as a vote.
    assert grant(voter, 3, 1, pre_vote=True).role is Role.CANDIDATE
    assert grant(voter, 3, 1, pre_vote=False) == Output(
        Role.LEADER,
        1,
        1,
        0,
        persist=ElectionState(1, leader_id=1, voters=THREE),
        append=(Batch(0, 1, 1, None, (Leadership(1, keys(1, 2, 3), keys(1, 3)),)),),
        send=tuple(Send(to, begin_request(1, 1, ReplicaKey(to))) for to in (2, 3)),
        wake_ms=3000,
    )


def test_one_vote_in_an_epoch() -> None:
    """If this fails, an epoch has two leaders."""
    voter = StaticVoter(THREE)
    output = voter.receive(2, vote_request(ReplicaKey(2), 5, END, pre_vote=False))
    assert output.persist == ElectionState(5, voted_id=2, voters=THREE)
    assert sent(output, 2) == [vote_response(5, -1, True)]
    output = voter.receive(3, vote_request(ReplicaKey(3), 5, END, pre_vote=False))
    assert (output.persist, sent(output, 3)) == (None, [vote_response(5, -1, False)])
    assert sent(voter.receive(2, vote_request(ReplicaKey(2), 5, END, pre_vote=False)), 2) == [
        vote_response(5, -1, True)
    ]
    again = StaticVoter(THREE, stored=ElectionState(5, voted_id=2, voters=THREE))
    assert sent(again.receive(3, vote_request(ReplicaKey(3), 5, END, pre_vote=False)), 3) == [
        vote_response(5, -1, False)
    ]
    outdated = vote_response(5, -1, False, ErrorCode.FENCED_LEADER_EPOCH)
    assert sent(again.receive(3, vote_request(ReplicaKey(3), 4, END, pre_vote=False)), 3) == [outdated]


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (OffsetAndEpoch(9, 4), False),
        (OffsetAndEpoch(10, 4), True),
        (OffsetAndEpoch(99, 3), False),
        (OffsetAndEpoch(1, 5), True),
    ],
)
def test_only_a_log_as_long_is_elected(last: OffsetAndEpoch, expected: bool) -> None:
    """If this fails, a leader lacks committed entries, and the other voters truncate theirs."""
    for pre_vote in (True, False):
        voter = StaticVoter(THREE, log=LogEpochs(10, [(2, 0), (4, 5)]))
        output = voter.receive(3, vote_request(ReplicaKey(3), 7, last, pre_vote=pre_vote))
        assert sent(output, 3) == [vote_response(7, -1, expected)]


def test_a_restarted_leader_does_not_lead_or_vote_in_its_epoch() -> None:
    """If this fails, a leader that lost unsynced entries writes other entries in the same epoch."""
    stored = ElectionState(4, leader_id=1, voters=THREE)
    # Its Leadership of epoch 4 was not on disk.
    voter = StaticVoter(THREE, stored=stored, log=LogEpochs(9, [(3, 5)]))
    assert (voter.first.role, voter.first.persist) == (Role.RESIGNED, None)
    output = voter.receive(3, vote_request(ReplicaKey(3), 4, OffsetAndEpoch(99, 3), pre_vote=False))
    assert sent(output, 3) == [vote_response(4, -1, False)]
    assert output.persist is None
    # It still has voted for itself when it stands for the next epoch.
    assert tick(voter, 1000).persist == ElectionState(4, voted_id=1, voters=THREE)
    output = voter.receive(3, vote_request(ReplicaKey(3), 4, OffsetAndEpoch(99, 3), pre_vote=False))
    assert sent(output, 3) == [vote_response(4, -1, False)]
    assert grant(voter, 2, 4, pre_vote=True).epoch == 5


def test_who_hears_from_a_leader_keeps_it() -> None:
    """If this fails, a voter that was cut off ends, when it comes back, the epoch of a leader that works (KIP-996)."""
    voter, fetch = follower()
    ask = vote_request(ReplicaKey(3), 1, OffsetAndEpoch(50, 1), pre_vote=True)
    assert sent(voter.receive(3, ask), 3) == [vote_response(1, 2, True)]
    answer(voter, fetch)
    assert sent(voter.receive(3, ask), 3) == [vote_response(1, 2, False)]
    assert sent(leader().receive(3, ask), 3) == [vote_response(1, 1, False)]
    # The leader resigns, and names the voter that may stand immediately.
    output = voter.receive(2, end_request(2, 1, keys(1, 3)))
    assert output.wake_ms == voter.now_ms
    assert sent(voter.receive(3, ask), 3) == [vote_response(1, 2, True)]
    assert tick(voter, 0).role is Role.PROSPECTIVE


def test_followers_of_a_leader_that_has_gone_stand_one_after_the_other() -> None:
    """If this fails, the metadata have no leader until the fetch timeout after a controller was killed."""
    voter, _ = follower()  # of voter 2; voter 1 is the first of the remaining ones
    before = voter.quorum.step(Tick(), voter.now_ms)
    for others in (LeaderGone(2, 0), LeaderGone(3, 1)):
        assert voter.quorum.step(others, voter.now_ms) == before
    output = voter.quorum.step(LeaderGone(2, 1), voter.now_ms)
    assert (output.role, output.epoch, output.wake_ms) == (Role.PROSPECTIVE, 1, voter.now_ms + 50)
    assert [(each.to, type(each.message)) for each in output.send] == [(2, wire.VoteRequest), (3, wire.VoteRequest)]
    # Each timeout is twice as long as the one before, until that of an election.
    waits = []
    for _ in range(6):
        voter.now_ms = output.wake_ms
        output = voter.quorum.step(Tick(), voter.now_ms)
        waits.append(output.wake_ms - voter.now_ms)
    assert waits == [100, 200, 400, 800, 1000, 1000]
    # Voters that hear from the leader reject the pre-vote, and this voter follows the leader again.
    for other in (2, 3):
        output = voter.receive(other, vote_response(1, 2, False), PRE_VOTE)
    assert (output.role, output.leader_id) == (Role.FOLLOWER, 2)


def test_the_second_voter_leaves_the_first_one_time() -> None:
    """If this fails, all remaining voters stand at the same time, and split the votes."""
    voter = StaticVoter((0, 1, 2))
    voter.receive(2, begin_request(2, 1))
    output = voter.quorum.step(LeaderGone(2, 1), voter.now_ms)
    assert (output.role, output.wake_ms) == (Role.FOLLOWER, voter.now_ms + 50)
    # It may vote for the first voter immediately, although it has just heard from the leader.
    asked = voter.receive(0, vote_request(ReplicaKey(0), 1, END, pre_vote=True))
    assert sent(asked, 0) == [vote_response(1, 2, True)]


def test_a_leader_that_was_given_up_is_followed_again_only_if_it_shows_itself() -> None:
    """If this fails, voters refer each other to a leader that is gone, and never elect a new one."""
    voter, _ = follower()
    assert tick(voter, 2000).role is Role.PROSPECTIVE
    assert voter.receive(3, vote_response(1, 2, False), PRE_VOTE).role is Role.PROSPECTIVE
    assert voter.receive(2, begin_request(2, 1)).role is Role.FOLLOWER
    tick(voter, 2000)
    assert voter.receive(2, vote_response(1, 2, False), PRE_VOTE).role is Role.FOLLOWER


def test_a_leader_that_has_resigned_is_not_followed_again() -> None:
    """If this fails, a controller of Kafka that stops, and names itself until another one is elected, keeps voters from
    electing it, for the 5 s after which it gives up waiting.
    """
    voter, _ = follower()
    voter.receive(2, end_request(2, 1, keys(1, 3)))
    assert tick(voter, 0).role is Role.PROSPECTIVE
    assert voter.receive(2, vote_response(1, 2, False), PRE_VOTE).role is Role.PROSPECTIVE
    # Another voter has not learned of the resignation yet.
    assert voter.receive(3, vote_response(1, 2, False), PRE_VOTE).role is Role.PROSPECTIVE
    voter.receive(3, vote_response(1, 2, True), PRE_VOTE)
    output = grant(voter, 3, 2, pre_vote=False)
    assert (output.role, output.epoch) == (Role.LEADER, 2)
    # The next leader is another matter.
    assert voter.receive(2, begin_request(2, 3)).role is Role.FOLLOWER
    voter.receive(2, end_request(2, 3, keys(1, 3)))
    assert voter.receive(3, begin_request(3, 4)).role is Role.FOLLOWER
    tick(voter, 2000)
    assert voter.receive(3, vote_response(4, 3, False), PRE_VOTE).role is Role.FOLLOWER


def test_two_leaders_in_an_epoch_stop_the_voter() -> None:
    """If this fails, a voter takes entries from both."""
    voter, _ = follower()
    with pytest.raises(AssertionError, match="epoch 1 has the leaders 2 and 3"):
        voter.receive(3, begin_request(3, 1))


def test_commit_takes_a_majority_of_disks() -> None:
    """If this fails, a power cut of a minority takes committed entries."""
    voter = leader((1, 2, 3, 4, 5))
    voter.append(4)
    high = [
        voter.receive(
            source, fetch_request(ReplicaKey(source), 1, OffsetAndEpoch(end, 1), 0, WAIT_MS), 7
        ).high_watermark
        for source, end in ((2, 5), (3, 1), (4, 3), (3, 4))
    ]
    # The leader itself has the first entry on disk, and not yet the others.
    assert high == [0, 1, 1, 3]
    assert voter.synced().high_watermark == 4


def test_a_fetch_waits_for_something_new() -> None:
    """If this fails, followers ask without end, or learn of a commit only with the next change."""
    voter = leader()
    assert voter.receive(2, fetch_request(ReplicaKey(2), 1, OffsetAndEpoch(1, 1), 0, WAIT_MS), 7).high_watermark == 1
    output = voter.receive(2, fetch_request(ReplicaKey(2), 1, OffsetAndEpoch(1, 1), 1, WAIT_MS), 8)
    assert output.send == ()
    assert answers(voter.append(2), 2) == [Answer(2, fetch_response(1, 1, 1), 8, 1)]
    voter.receive(2, fetch_request(ReplicaKey(2), 1, OffsetAndEpoch(3, 1), 1, WAIT_MS), 9)
    assert answers(voter.synced(), 2) == [Answer(2, fetch_response(1, 1, 3), 9, 3)]
    voter.receive(2, fetch_request(ReplicaKey(2), 1, OffsetAndEpoch(3, 1), 3, WAIT_MS), 10)
    assert sent(tick(voter, 499), 2) == []
    assert answers(tick(voter, 1), 2) == [Answer(2, fetch_response(1, 1, 3), 10, 3)]


def test_a_fetch_of_another_epoch_counts_nothing() -> None:
    """If this fails, a delayed fetch acknowledges entries that its sender has truncated since."""
    voter = leader()
    for epoch, error in ((0, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        output = voter.receive(2, fetch_request(ReplicaKey(2), epoch, OffsetAndEpoch(1, 0), 0, WAIT_MS), 7)
        assert answers(output, 2) == [Answer(2, fetch_response(1, 1, error=error), 7)]
        assert (output.role, output.epoch, output.high_watermark) == (Role.LEADER, 1, 0)


def test_a_diverging_fetch_counts_nothing() -> None:
    """If this fails, a leader commits what the follower is about to truncate (KAFKA-13141)."""
    voter = leader()
    output = voter.receive(2, fetch_request(ReplicaKey(2), 1, OffsetAndEpoch(8, 1), 0, WAIT_MS), 7)
    # Nothing of this epoch is committed yet: Kafka's followers end if a leader then says less than they know.
    assert answers(output, 2) == [Answer(2, fetch_response(1, 1, -1, diverging=OffsetAndEpoch(1, 1)), 7)]
    assert output.high_watermark == 0


def test_entries_are_acknowledged_when_they_are_on_disk() -> None:
    """If this fails, a follower that loses power has acknowledged entries that it no longer has."""
    voter, fetch = follower()
    batches = (Batch(0, 1, 1, b"a"), Batch(1, 4, 1, b"b"))
    output = answer(voter, fetch, *batches, high_watermark=3)
    assert (output.append, output.send, output.high_watermark) == (batches, (), 0)
    output = voter.synced(1)
    assert (output.send, output.high_watermark) == ((), 1)
    output = voter.synced()
    assert answers(output, 2) == [
        Send(2, fetch_request(ReplicaKey(1), 1, OffsetAndEpoch(4, 1), 3, WAIT_MS), fetch.correlation + 1)
    ]
    assert output.high_watermark == 3


def test_truncation_to_what_both_logs_have() -> None:
    """If this fails, a follower keeps entries that its leader never had, or truncates in the middle of a batch."""
    voter, fetch = follower(LogEpochs(30, [(1, 0), (3, 10), (5, 20)]), epoch=9)
    assert end_of(fetch) == OffsetAndEpoch(30, 5)
    # The leader has epoch 4 up to 14; here is none of it, and whether epoch 3 is the same is asked next.
    output = voter.receive(2, fetch_response(9, 2, 0, diverging=OffsetAndEpoch(14, 4)), fetch.correlation)
    assert output.truncate_to == 20
    again = fetch_to(output, 2)
    assert end_of(again) == OffsetAndEpoch(20, 3)
    output = voter.receive(2, fetch_response(9, 2, 0, diverging=OffsetAndEpoch(12, 3)), again.correlation)
    assert (output.truncate_to, answers(output, 2)) == (
        12,
        [Send(2, fetch_request(ReplicaKey(1), 9, OffsetAndEpoch(12, 3), 0, WAIT_MS), again.correlation + 1)],
    )


def test_only_the_newest_fetch_has_a_response() -> None:
    """If this fails, an overtaken response appends entries twice, or truncates entries that were fetched since."""
    voter, fetch = follower()
    answer(voter, fetch, Batch(0, 2, 1, b"a"))
    voter.synced()
    nothing = answer(voter, fetch, Batch(0, 2, 1, b"a"))
    assert (nothing.append, nothing.send) == ((), ())
    late = fetch_response(1, 2, 0, diverging=OffsetAndEpoch(0, 0))
    assert voter.receive(2, late, fetch.correlation).truncate_to == -1
    assert voter.quorum.end_offset == 2


def test_a_follower_that_cannot_write_asks_again_later() -> None:
    """If this fails, a full disk makes a follower fetch without end, or skip entries."""
    voter, fetch = follower()
    answer(voter, fetch, Batch(0, 2, 1, b"a"))
    output = voter.quorum.step(NotWritten(0), voter.now_ms)
    assert (output.send, voter.quorum.end_offset) == ((), 0)
    assert tick(voter, 19).send == ()
    assert answers(tick(voter, 1), 2) == [
        Send(2, fetch_request(ReplicaKey(1), 1, END, 0, WAIT_MS), fetch.correlation + 2)
    ]


def test_a_leader_without_followers_resigns() -> None:
    """If this fails, a leader that is cut off answers from outdated metadata forever (KAFKA-15489)."""
    voter = leader((1, 2, 3, 4, 5))
    for source, after_ms in ((2, 0), (3, 2000), (2, 500)):
        voter.now_ms += after_ms
        voter.receive(source, fetch_request(ReplicaKey(source), 1, OffsetAndEpoch(1, 1), 1, WAIT_MS), 7)
    # Two others make a majority: the second to the last fetched 500 ms ago.
    assert tick(voter, 2499).role is Role.LEADER
    output = tick(voter, 1)
    assert (output.role, output.leader_id, output.persist) == (Role.RESIGNED, -1, None)
    assert sent(output, 4) == [end_request(1, 1, keys(2, 3, 4, 5))]
    output = tick(voter, 1000)
    assert (output.role, output.persist) == (Role.PROSPECTIVE, ElectionState(1, voted_id=1, voters=(1, 2, 3, 4, 5)))


def test_a_leader_reminds_voters_that_do_not_fetch() -> None:
    """If this fails, a voter that was down when the leader was elected does not find it, and starts an election."""
    voter = leader()
    voter.receive(2, fetch_request(ReplicaKey(2), 1, OffsetAndEpoch(1, 1), 1, WAIT_MS), 7)
    output = tick(voter, 999)
    assert output.send == (Answer(2, fetch_response(1, 1, 1), 7, 1),)
    voter.receive(2, fetch_request(ReplicaKey(2), 1, OffsetAndEpoch(1, 1), 1, WAIT_MS), 8)
    output = tick(voter, 1)
    assert (sent(output, 2), sent(output, 3)) == ([], [begin_request(1, 1, ReplicaKey(3))])
    output = voter.receive(3, begin_response(4, -1))
    assert (output.role, output.epoch) == (Role.UNATTACHED, 4)


def test_a_stranger_among_static_voters_is_refused() -> None:
    """If this fails, a node with another controller.quorum.voters can end an epoch, and its operator learns nothing."""
    voter = leader()
    output = voter.receive(9, vote_request(ReplicaKey(9), 99, OffsetAndEpoch(99, 98), pre_vote=False))
    assert sent(output, 9) == [vote_response(1, 1, False, ErrorCode.INCONSISTENT_VOTER_SET)]
    assert (output.role, output.epoch) == (Role.LEADER, 1)


@pytest.mark.parametrize(
    ("source", "last"), [(-1, END), (3, OffsetAndEpoch(-1, 0)), (3, OffsetAndEpoch(9, -1)), (3, OffsetAndEpoch(9, 7))]
)
def test_impossible_votes_are_refused(source: int, last: OffsetAndEpoch) -> None:
    """If this fails, a damaged request gets a vote, and the candidate leads without the committed entries."""
    output = StaticVoter(THREE).receive(source, vote_request(ReplicaKey(source), 7, last, pre_vote=False))
    assert sent(output, source) == [vote_response(0, -1, False, ErrorCode.INVALID_REQUEST)]
    assert output.epoch == 0


def test_another_node_with_this_id_is_no_leader() -> None:
    """If this fails, a node follows itself, or is fenced by a copy of its own data directory."""
    voter = leader()
    for source in (1, -1):
        output = voter.receive(source, begin_request(source, 7))
        assert sent(output, source) == [begin_response(1, 1, ErrorCode.INVALID_REQUEST)]
        output = voter.receive(source, end_request(source, 7, ()))
        assert sent(output, source) == [end_response(1, 1, ErrorCode.INVALID_REQUEST)]
        assert (output.role, output.epoch) == (Role.LEADER, 1)


def test_static_voters_are_shown_without_directories() -> None:
    """If this fails, tools show voters with directories that a change could name, although they are those of the
    configuration files, and cannot be changed. Kafka shows none before kraft.version 1.
    """
    voter = leader()
    voter.receive(2, fetch_request(ReplicaKey(2, UUID(int=102)), 1, OffsetAndEpoch(1, 1), 0, WAIT_MS), 7)
    described = voter.quorum.describe(voter.now_ms)
    assert described is not None
    assert [each.key for each in described.voters] == [ReplicaKey(1), ReplicaKey(2), ReplicaKey(3)]
