"""Decisions of the leader of several replicas, step by step. tests/sim/replica_world.py has the interleavings."""

from __future__ import annotations

from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import PartitionImage
from broker_cy.replica import following, leading
from broker_cy.replica.broker_status import BrokerStatus
from broker_cy.replica.following import Answer, Ask, BatchSpan
from broker_cy.replica.in_sync import Altered, InSync
from broker_cy.replica.replica import Replica, Role
from broker_cy.replica.silence import FollowerSilence
from broker_cy.storage.epochs import LeaderEpochs

LAG_MS = 1000
SILENCE_MS = 100
REPLICAS = (1, 2, 3)


def leader(isr: tuple[int, ...] = REPLICAS, min_isr: int = 2) -> Replica:
    """Broker 1 leads in epoch 5 with 10 records, and knows that the first 4 are committed."""
    broker_statuses = {each: BrokerStatus(100 + each, True) for each in REPLICAS}
    replica = Replica(0)
    replica.follow(0)
    replica.open(10, 10, 4)
    silence = FollowerSilence(SILENCE_MS, LAG_MS, broker_statuses)
    replica.lead(InSync(1, broker_statuses, LAG_MS, min_isr, silence), PartitionImage(REPLICAS, isr, 1, 5, 7), 0)
    return replica


def in_sync_of(replica: Replica) -> InSync:
    assert replica.in_sync is not None
    return replica.in_sync


def test_the_slowest_member_holds_the_high_watermark() -> None:
    """If this fails, acks=all is answered before each member of the in-sync set has the record."""
    replica = leader()
    assert replica.high["offset"] == 4
    assert replica.fetched(2, 102, 10, 0, 1)["high_watermark"] == 4
    assert replica.fetched(3, 103, 8, 0, 1)["high_watermark"] == 8
    assert replica.fate_of(7, True) == "DONE"
    assert replica.fate_of(8, True) == "PENDING"
    assert replica.fate_of(8, False) == "DONE"


def test_a_slow_member_leaves_and_comes_back() -> None:
    """If this fails, a dead follower blocks producers forever, or a follower never rejoins the in-sync set."""
    replica = leader()
    replica.fetched(2, 102, 10, 0, 1)
    found = replica.tick(LAG_MS + 2)
    assert not found["wants_alter"] or in_sync_of(replica).proposal is not None
    replica.fetched(2, 102, 10, 0, LAG_MS + 2)
    replica.tick(LAG_MS + 3)
    proposal = in_sync_of(replica).sent()
    assert proposal.isr == ((1, 101), (2, 102))
    # Until the controller has committed it, the third replica may still be in the set.
    assert replica.high["offset"] == 4
    assert replica.answered(proposal, Altered(ErrorCode.NONE, 5, 8, (1, 2)))["high_watermark"] == 10
    assert replica.fetched(3, 103, 9, 0, LAG_MS + 4)["wants_alter"] is False, "it is behind the high watermark"
    assert replica.fetched(3, 103, 10, 0, LAG_MS + 5)["wants_alter"]
    proposal = in_sync_of(replica).sent()
    assert (proposal.added, proposal.partition_epoch) == (3, 8)
    replica.wrote(12, 12, 1 << 60)
    replica.fetched(2, 102, 12, 0, LAG_MS + 6)
    assert replica.high["offset"] == 10, "the proposed replica does not count"
    replica.answered(proposal, Altered(ErrorCode.INELIGIBLE_REPLICA))
    assert in_sync_of(replica).maximal == {1, 2}


def test_a_late_report_of_a_removed_member_holds_no_high_watermark() -> None:
    """If this fails, a producer with acks=all waits for replica.lag.time.max.ms after the disk of a follower died: the
    controller has removed the follower, and the leader then learns that it had kept up until shortly before.
    """
    replica = leader()
    for broker_id in (2, 3):
        replica.fetched(broker_id, 100 + broker_id, 10, 0, 1)
    assert replica.wrote(11, 11, 1 << 60)["high_watermark"] == 10
    replica.fetched(2, 102, 11, 0, 2)
    assert replica.fate_of(10, True) == "PENDING"
    in_sync = in_sync_of(replica)
    assert replica.lead(in_sync, PartitionImage(REPLICAS, (1, 2), 1, 5, 8), 3)["high_watermark"] == 11
    assert replica.fate_of(10, True) == "DONE"
    in_sync.kept_up(3, 2)
    replica.wrote(12, 12, 1 << 60)
    assert replica.fetched(2, 102, 12, 0, 4)["high_watermark"] == 12
    assert replica.fate_of(11, True) == "DONE"


def test_a_member_that_kept_up_stays() -> None:
    """If this fails, a follower that had everything leaves the in-sync set with the first record after a quiet time."""
    replica = leader()
    for broker_id in (2, 3):
        replica.fetched(broker_id, 100 + broker_id, 10, 0, 1)
    in_sync = in_sync_of(replica)
    in_sync.kept_up(2, LAG_MS)
    replica.wrote(11, 11, 1 << 60)
    assert replica.tick(LAG_MS + 2)["wants_alter"]
    assert in_sync.sent().isr == ((1, 101), (2, 102))


def test_under_min_insync_replicas_nothing_is_committed() -> None:
    """If this fails, a record is readable, or acknowledged, that only one broker has (KAFKA-15583)."""
    replica = leader(isr=(1,))
    assert replica.under_min
    assert replica.wrote(20, 20, 1 << 60)["high_watermark"] == 4
    assert replica.fate_of(3, True) == "TOO_FEW"


def test_a_proposal_names_the_incarnation_that_fetched() -> None:
    """If this fails, a broker that lost records in a restart joins by a proposal from before (KAFKA-14617)."""
    replica = leader(isr=(1, 2))
    replica.fetched(3, 103, 10, 0, 1)
    proposal = in_sync_of(replica).sent()
    assert dict(proposal.isr)[3] == 103
    in_sync_of(replica).broker_statuses[3] = BrokerStatus(203, True)  # type: ignore[index]
    assert in_sync_of(replica).refusal(3, 103, 5) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    replica.answered(proposal, Altered(ErrorCode.INELIGIBLE_REPLICA))
    assert not replica.fetched(2, 102, 10, 0, 2)["wants_alter"]


def test_a_proposed_replica_counts_until_the_controller_has_answered() -> None:
    """If this fails, a record is acknowledged that a member of the set lacks: the controller may have committed the
    proposal although its answer was lost, and may elect the replica before the leader learns of it.
    """
    replica = leader(isr=(1, 2))
    replica.fetched(3, 103, 10, 0, 1)
    proposal = in_sync_of(replica).sent()
    replica.wrote(12, 12, 1 << 60)
    replica.fetched(2, 102, 12, 0, 2)
    assert replica.high["offset"] == 10
    found = replica.answered(proposal, Altered(ErrorCode.REQUEST_TIMED_OUT))
    assert (found["high_watermark"], found["wants_alter"]) == (10, True)
    assert in_sync_of(replica).sent() is proposal
    assert replica.answered(proposal, Altered(ErrorCode.NONE, 5, 8, REPLICAS))["high_watermark"] == 10
    assert replica.fetched(3, 103, 12, 0, 3)["high_watermark"] == 12


def test_a_fetch_is_refused_as_in_kafka() -> None:
    """If this fails, a follower waits where it should look for its leader, or the other way round."""
    replica = leader()
    fetch = leading.FollowerFetch(2, 102, 5, 10, -1, 0)

    class Log:
        log_start_offset, written_end_offset = 3, 10

        def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
            return {4: (3, 6), 5: (5, 10)}.get(epoch, (-1, -1))

    def judged(**changed: int) -> leading.Verdict:
        return leading.judge(replica, Log(), fetch._replace(**changed))

    assert judged() == leading.Verdict(is_acknowledging=True)
    assert judged(leader_epoch=4).error == ErrorCode.FENCED_LEADER_EPOCH
    assert judged(leader_epoch=6).error == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert judged(broker_id=9).error == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert judged(broker_id=9, leader_epoch=-1).error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert judged(broker_epoch=99).error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert judged(offset=2).error == judged(offset=11).error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert judged(last_fetched_epoch=9).error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert judged(last_fetched_epoch=4) == leading.Verdict(diverging=(3, 6))
    replica.follow(6)
    assert judged(leader_epoch=6).error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_appends_what_belongs_to_its_fetch() -> None:
    """If this fails, a follower's log gets records of a leader that it has not compared itself with (KAFKA-18723)."""
    replica = Replica(0)
    replica.follow(5)
    replica.open(10, 10, 4)
    epochs = LeaderEpochs("/nowhere", [(3, 0)])
    asked = following.ask(replica, epochs)
    assert asked == Ask(5, 10, 3)
    batches = [BatchSpan(10, 12, 3), BatchSpan(12, 13, 5), BatchSpan(13, 14, 6)]
    step = following.take(replica, asked, Answer(13, 2, None, batches), epochs)
    assert (step.append, step.high_watermark, step.log_start_offset, step.truncate_to) == (2, 13, 2, -1)
    replica.report_staged(13, 100)
    assert replica.learn(13)["high_watermark"] == 10, "only what is written may be read"
    assert following.ask(replica, epochs) is None, "its offset would acknowledge what is not written"
    assert replica.wrote(13, 10, 1 << 60)["high_watermark"] == 13


def test_an_empty_log_begins_within_no_batch() -> None:
    """If this fails, a follower that began again in the middle of a batch, where records had been deleted, never gets
    in sync with a leader that still has all of the batch.
    """
    replica = Replica(0)
    replica.follow(5)
    replica.open(10, 10, 10)
    batches = [BatchSpan(9, 12, 3), BatchSpan(12, 13, 5)]
    nothing = LeaderEpochs("/nowhere")
    asked = following.ask(replica, nothing)
    assert asked == Ask(5, 10, -1)
    step = following.take(replica, asked, Answer(13, 2, None, batches), nothing)
    assert (step.restart_at, step.append, step.truncate_to) == (9, 2, -1)
    # With records before it, nothing of them is given up as long as the leader has them.
    something = LeaderEpochs("/nowhere", [(3, 0)])
    asked = following.ask(replica, something)
    assert asked == Ask(5, 10, 3)
    step = following.take(replica, asked, Answer(13, 2, None, batches), something)
    assert (step.restart_at, step.append, step.truncate_to) == (-1, 0, -1)


def test_an_answer_from_before_a_truncation_is_ignored() -> None:
    """If this fails, a log that has the same length again is truncated once more, and loses committed records."""
    replica = Replica(0)
    replica.follow(9)
    replica.open(10, 10, 4)
    epochs = LeaderEpochs("/nowhere", [(3, 0)])
    asked = following.ask(replica, epochs)
    assert asked is not None
    assert following.take(replica, asked, Answer(9, 0, (3, 7)), epochs).truncate_to == 7
    replica.truncated(7)
    replica.wrote(10, 10, 1 << 60)
    epochs.assign(9, 7)
    assert following.take(replica, asked, Answer(9, 0, (3, 7)), epochs).is_ignored


def test_a_leaders_high_watermark_does_not_survive_a_change_of_the_leader() -> None:
    """If this fails, records that the new leader does not have become readable (KAFKA-14704)."""
    replica = Replica(0)
    replica.follow(5)
    replica.open(10, 10, 4)
    replica.learn(30)
    assert replica.high["offset"] == 10
    replica.follow(6)
    replica.wrote(12, 12, 1 << 60)
    assert replica.high["offset"] == 10
    assert (replica.role, replica.truncated(8)["high_watermark"]) == (Role.FOLLOWER, 8)


def test_truncation_by_epochs() -> None:
    """If this fails, a follower keeps records that its leader does not have, or loses ones that it has."""
    epochs = LeaderEpochs("/nowhere", [(1, 0), (3, 10), (5, 20)])
    assert following.truncation(epochs, 30, (5, 25)) == 25
    assert following.truncation(epochs, 30, (5, 40)) == 30
    assert following.truncation(epochs, 30, (4, 18)) == 20, "no records of epoch 4: ask about epoch 3 next"
    assert following.truncation(epochs, 30, (3, 15)) == 15
    assert following.truncation(epochs, 30, (9, 28)) == 28
    assert following.out_of_range(30, 0, 20).truncate_to == 20
    assert following.out_of_range(30, 50, 60).restart_at == 50


def test_a_log_that_would_end_before_it_begins_is_replaced() -> None:
    """If this fails, a follower that has deleted more than its leader has is in sync with an empty log. Elected, it
    loses the records of the leader.
    """
    step = following.Step(truncate_to=23, log_start_offset=4)
    assert following.begin_again(step, 23) == step
    assert following.begin_again(step, 75) == following.Step(restart_at=23, log_start_offset=4)
    assert following.begin_again(following.out_of_range(75, 4, 60), 75, 4) == following.Step(restart_at=4)
    assert following.begin_again(following.out_of_range(75, 4, 75), 75, 4) == following.Step()
    assert following.begin_again(following.Step(is_ignored=True), 75) == following.Step(is_ignored=True)


def test_bytes_are_never_overstated() -> None:
    """If this fails, a consumer's fetch is answered before fetch.min.bytes are readable, or never."""
    replica = leader()
    end, size = 10, 0
    for _ in range(40):
        end, size = end + 3, size + 100
        replica.report_staged(end, 100)
        replica.wrote(end, end, 1 << 60)
    replica.fetched(2, 102, end, 0, 1)
    before = replica.high["bytes"]
    for offset in range(11, end + 1, 7):
        found = replica.fetched(3, 103, offset, 0, 2)
        assert before < found["readable_bytes"] <= max(1, (offset - 10) // 3) * 100
        before = found["readable_bytes"]
    assert replica.fetched(3, 103, end, 0, 3)["readable_bytes"] == size
