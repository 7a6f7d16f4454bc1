"""Defects of replication, which its simulation must find. Each is planted by replacing one function or value."""

from __future__ import annotations

from typing import Any

from broker_cy.core.errors import ErrorCode
from broker_cy.replica import following, leading
from broker_cy.replica.in_sync import ANY_BROKER_EPOCH, Altered, InSync, Proposal
from broker_cy.replica.replica import Role
from broker_cy.storage.epochs import LeaderEpochs
from tests.sim.defects import Patch, Planter


def diverging_fetch_acknowledges(patch: Patch) -> None:
    """A fetch of a log with other records counts as an acknowledgement (KAFKA-13141)."""
    right = leading.judge

    def judge(replica: Any, log: Any, fetch: leading.FollowerFetch) -> leading.Verdict:
        verdict = right(replica, log, fetch)
        if verdict.diverging is not None:
            replica.fetched(fetch.broker_id, fetch.broker_epoch, fetch.offset, 0, replica.in_sync.now_ms)
        return verdict

    patch.setattr(leading, "judge", judge)


def high_watermark_before_truncation(patch: Patch) -> None:
    """A follower takes its leader's high watermark although its log diverges (KAFKA-14704)."""
    right = following.take

    def take(replica: Any, asked: Any, answer: following.Answer, epochs: Any) -> following.Step:
        if answer.diverging is not None and following.is_expected(replica, asked, epochs):
            replica.learn(answer.high_watermark)
        return right(replica, asked, answer, epochs)

    patch.setattr(following, "take", take)


def fenced_replica_joins(patch: Patch) -> None:
    """The leader proposes a broker that is fenced or stops (KAFKA-13916)."""
    patch.setattr(InSync, "_is_eligible", lambda self, broker_id: broker_id in self.standings)


def any_incarnation_joins(patch: Patch) -> None:
    """A proposal has no broker epochs, so a broker joins that was restarted since its fetch (KAFKA-14617)."""
    patch.setattr(InSync, "_epoch_of", lambda self, broker_id: ANY_BROKER_EPOCH)


def old_incarnation_acknowledges(patch: Patch) -> None:
    """A fetch that a broker sent before its restart counts (KAFKA-15221)."""
    patch.setattr(InSync, "_is_outdated", lambda self, broker_id, broker_epoch: False)
    patch.setattr(InSync, "_is_eligible", lambda self, broker_id: self.standings[broker_id].is_eligible)
    patch.setattr(InSync, "_epoch_of", lambda self, broker_id: self.standings[broker_id].epoch)


def stopping_replica_holds_the_high_watermark(patch: Patch) -> None:
    """The high watermark waits for a replica that may not join (KAFKA-15021)."""
    patch.setattr(InSync, "_is_joining", lambda self, broker_id, end: self._is_caught_up(broker_id, end))


def moves_under_min_isr(patch: Patch) -> None:
    """The high watermark moves while the set is smaller than min.insync.replicas (KAFKA-15583)."""
    right = InSync.bound

    def bound(self: InSync, end_offset: int) -> int:
        min_isr, self.min_isr = self.min_isr, 1
        found = right(self, end_offset)
        self.min_isr = min_isr
        return found

    patch.setattr(InSync, "bound", bound)


def answer_of_an_older_epoch_counts(patch: Patch) -> None:
    """An answer to an AlterPartition is taken although the metadata has changed meanwhile (KAFKA-12686)."""
    right = InSync.answered

    def answered(self: InSync, proposal: Proposal, answer: Altered) -> None:
        if answer.error == ErrorCode.NONE and proposal is not self.proposal:
            self.partition_epoch = answer.partition_epoch
            self._commit(frozenset(answer.isr))
        else:
            right(self, proposal, answer)

    patch.setattr(InSync, "answered", answered)


def proposed_replica_does_not_count(patch: Patch) -> None:
    """The high watermark passes a replica whose joining was proposed, and may be committed already (KIP-497)."""
    right = InSync._propose_set

    def propose_set(self: InSync, isr: frozenset[int], added: int) -> None:
        right(self, isr, added)
        self.maximal = self.isr

    patch.setattr(InSync, "_propose_set", propose_set)
    patch.setattr(InSync, "_is_joining", lambda self, broker_id, end_offset: False)


def joins_behind_the_epoch_start(patch: Patch) -> None:
    """A follower joins at the high watermark that the new leader knows, which may be older than what is committed."""
    patch.setattr(
        InSync,
        "_may_join",
        lambda self, broker_id, high: self.followers[broker_id].end_offset >= high and self._is_eligible(broker_id),
    )


def unknown_followers_do_not_count(patch: Patch) -> None:
    """A new leader does not wait for the members of the set that have not fetched from it yet."""
    right = InSync.bound

    def bound(self: InSync, end_offset: int) -> int:
        hidden = {each: follower for each, follower in self.followers.items() if follower.end_offset >= 0}
        self.followers, all_of_them = hidden, self.followers
        found = right(self, end_offset) if len(self.isr) >= min(self.min_isr, len(all_of_them) + 1) else -1
        self.followers = all_of_them
        return found

    patch.setattr(InSync, "bound", bound)


def gives_up_a_proposal_that_timed_out(patch: Patch) -> None:
    """A leader forgets the proposed replica when it gets no answer, although the controller may have committed it."""
    right = InSync.answered

    def answered(self: InSync, proposal: Proposal, answer: Altered) -> None:
        if proposal is self.proposal and answer.error == ErrorCode.REQUEST_TIMED_OUT:
            self._commit(self.isr)
        else:
            right(self, proposal, answer)

    patch.setattr(InSync, "answered", answered)
    patch.setattr(InSync, "_is_joining", lambda self, broker_id, end_offset: False)


def epochs_are_not_truncated(patch: Patch) -> None:
    """The leader epochs stay when the log is truncated (KAFKA-10706)."""
    patch.setattr(LeaderEpochs, "truncate_from_end", lambda self, end_offset: False)


def appends_records_of_a_later_epoch(patch: Patch) -> None:
    """A follower appends records of a later leader epoch than that in which it fetched (KAFKA-18723)."""
    patch.setattr(following, "belongs", lambda base, epoch, end, newest, leader_epoch: base >= end and epoch >= newest)


def high_watermark_below_log_start(patch: Patch) -> None:
    """A replica opens its log with a checkpointed high watermark from before a deletion (KAFKA-9491)."""
    patch.setattr(following, "opening_high_watermark", lambda checkpointed, log_start: checkpointed)


def log_start_above_high_watermark(patch: Patch) -> None:
    """A follower deletes what its leader has deleted, also above its own high watermark (KAFKA-9491)."""
    patch.setattr(following, "log_start", lambda leader_start, high_watermark: leader_start)


def fetches_before_the_write(patch: Patch) -> None:
    """A follower acknowledges what it has received, before it is written and on disk."""
    patch.setattr(following, "acknowledged_end", lambda replica: replica.staged["offset"])


def truncates_to_the_high_watermark(patch: Patch) -> None:
    """A follower whose log diverges truncates it to its high watermark alone, as Kafka did before KIP-101."""
    right = following.take

    def take(replica: Any, asked: Any, answer: following.Answer, epochs: Any) -> following.Step:
        step = right(replica, asked, answer, epochs)
        return step if step.truncate_to < 0 else step._replace(truncate_to=max(replica.high["offset"], 0))

    patch.setattr(following, "take", take)


def takes_any_answer(patch: Patch) -> None:
    """A follower takes the answer to an earlier fetch, or that of an earlier leader."""
    patch.setattr(following, "is_expected", lambda replica, asked, epochs: asked.offset <= replica.staged["offset"])


def compares_offsets_alone(patch: Patch) -> None:
    """A follower takes an answer from before it truncated its log, because its log has the same length again."""
    patch.setattr(
        following,
        "is_expected",
        lambda replica, asked, epochs: (
            (asked.leader_epoch, asked.offset) == (replica.leader_epoch, replica.staged["offset"])
            and replica.role == Role.FOLLOWER
        ),
    )


def fetch_of_an_older_epoch_acknowledges(patch: Patch) -> None:
    """A delayed fetch of an earlier leader epoch counts, as if it had none, and did not say what it was behind."""
    right = leading.refusal

    def refusal(replica: Any, fetch: leading.FollowerFetch) -> ErrorCode:
        found = right(replica, fetch)
        known = replica.in_sync.followers if replica.in_sync is not None else ()
        if found == ErrorCode.FENCED_LEADER_EPOCH and fetch.broker_id in known:
            end_offset = min(fetch.offset, replica.written["offset"])
            replica.fetched(fetch.broker_id, fetch.broker_epoch, end_offset, 0, replica.in_sync.now_ms)
        return found

    patch.setattr(leading, "refusal", refusal)


# The number of seeds (from 1 on) of which one must find it. Those with more than SEEDS_MAX are searched by the soak
# test.
SEEDS_MAX = 120
DEFECTS: dict[Planter, int] = {
    diverging_fetch_acknowledges: 40,
    high_watermark_before_truncation: 20,
    fenced_replica_joins: 6,
    any_incarnation_joins: 2000,
    old_incarnation_acknowledges: 40,
    stopping_replica_holds_the_high_watermark: 6,
    moves_under_min_isr: 6,
    answer_of_an_older_epoch_counts: 400,
    proposed_replica_does_not_count: 60,
    joins_behind_the_epoch_start: 100,
    unknown_followers_do_not_count: 60,
    gives_up_a_proposal_that_timed_out: 400,
    epochs_are_not_truncated: 100,
    appends_records_of_a_later_epoch: 2000,
    high_watermark_below_log_start: 10,
    log_start_above_high_watermark: 10,
    fetches_before_the_write: 20,
    truncates_to_the_high_watermark: 6,
    takes_any_answer: 6,
    compares_offsets_alone: 100,
    fetch_of_an_older_epoch_acknowledges: 100,
}
