"""Defects of replication, which its simulation must find. Each is planted by replacing one function or value.

Seven defects that it finds in thousands of seeds at best are in tests/broker_cy/replica instead: proposals without
broker epochs (KAFKA-14617), records of a later epoch than the fetch (KAFKA-18723), answers from before a truncation,
and proposals that are given up because no answer came (test_in_sync). The leader hardly ever learns of the metadata so
much later than of a lost answer that the high watermark moves in between. The others are followers that are dropped
while their leader stands still or is cut off itself, and followers that are dropped again and again (test_silence).
"""

from __future__ import annotations

from typing import Any

from broker_cy.core.errors import ErrorCode
from broker_cy.replica import following, leading
from broker_cy.replica.in_sync import Altered, InSync, Proposal
from broker_cy.replica.silence import FollowerSilence
from broker_cy.replica.throttle import UNLIMITED, ReplicaThrottle, WindowedRate
from broker_cy.storage.epochs import LeaderEpochs
from tests.sim.defects import Patch, Planter


def diverging_fetch_acknowledges(patch: Patch) -> None:
    """A fetch of a log with other records counts as an acknowledgement (KAFKA-13141)."""
    right = leading.judge

    def judge(replica: Any, log: Any, fetch: leading.FollowerFetch, has_mirrored: bool = False) -> leading.Verdict:
        verdict = right(replica, log, fetch, has_mirrored)
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
    patch.setattr(InSync, "_is_eligible", lambda self, broker_id: broker_id in self.broker_statuses)


def old_incarnation_acknowledges(patch: Patch) -> None:
    """A fetch that a broker sent before its restart counts (KAFKA-15221)."""
    patch.setattr(InSync, "_is_outdated", lambda self, broker_id, broker_epoch: False)
    patch.setattr(InSync, "_is_eligible", lambda self, broker_id: self.broker_statuses[broker_id].is_eligible)
    patch.setattr(InSync, "_epoch_of", lambda self, broker_id: self.broker_statuses[broker_id].epoch)


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
    """An answer to an AlterPartition counts although the metadata has changed since the request (KAFKA-12686)."""
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
    """A follower joins at the high watermark that the new leader knows, which may be behind the committed one."""
    patch.setattr(
        InSync,
        "_may_join",
        lambda self, broker_id, high, end: (
            self.followers[broker_id].end_offset >= high and self._is_eligible(broker_id)
        ),
    )


def joins_although_it_is_far_behind(patch: Patch) -> None:
    """Below min.insync.replicas a follower joins at the high watermark, which stands still, and leaves again with the
    next tick (KAFKA-19996).
    """

    def may_join(self: InSync, broker_id: int, high: int, end: int) -> bool:
        return self.followers[broker_id].end_offset >= max(high, self.epoch_start) and self._is_eligible(broker_id)

    patch.setattr(InSync, "_may_join", may_join)


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


def epochs_are_not_truncated(patch: Patch) -> None:
    """The leader epochs stay when the log is truncated (KAFKA-10706)."""
    patch.setattr(LeaderEpochs, "truncate_from_end", lambda self, end_offset: False)


def high_watermark_below_log_start(patch: Patch) -> None:
    """A replica opens its log with a checkpointed high watermark from before a deletion (KAFKA-9491)."""
    patch.setattr(following, "opening_high_watermark", lambda checkpointed, log_start: checkpointed)


def log_start_above_high_watermark(patch: Patch) -> None:
    """A follower deletes the records that its leader has deleted, even above its own high watermark (KAFKA-9491)."""
    patch.setattr(following, "log_start", lambda leader_start, high_watermark: leader_start)


def fetches_before_the_write(patch: Patch) -> None:
    """A follower acknowledges received records before they are written and on disk."""
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


def fetch_of_an_older_epoch_acknowledges(patch: Patch) -> None:
    """A delayed fetch of an earlier leader epoch counts, as if it had no epoch and no last fetched epoch."""
    right = leading.refusal

    def refusal(replica: Any, fetch: leading.FollowerFetch) -> ErrorCode:
        found = right(replica, fetch)
        known = replica.in_sync.followers if replica.in_sync is not None else ()
        if found == ErrorCode.FENCED_LEADER_EPOCH and fetch.broker_id in known:
            end_offset = min(fetch.offset, replica.written["offset"])
            replica.fetched(fetch.broker_id, fetch.broker_epoch, end_offset, 0, replica.in_sync.now_ms)
        return found

    patch.setattr(leading, "refusal", refusal)


def throttle_holds_replicas_in_sync(patch: Patch) -> None:
    """A throttle that is too low makes in-sync sets smaller (KIP-73)."""
    right = ReplicaThrottle.holds
    patch.setattr(
        ReplicaThrottle,
        "holds",
        lambda self, topic, partition, now_ms, is_in_sync: right(self, topic, partition, now_ms, is_in_sync=False),
    )


def throttle_forgets_at_each_window(patch: Patch) -> None:
    """The rate is that of the newest window alone: a broker copies as much again whenever one begins."""
    right = WindowedRate.record

    def record(self: WindowedRate, count: int, now_ms: int) -> None:
        if self._samples and now_ms - self._samples[-1][0] >= self._window_ms:
            self._samples.clear()
            self._total = 0
        right(self, count, now_ms)

    patch.setattr(WindowedRate, "record", record)
    patch.setattr(WindowedRate, "bytes_per_s", lambda self, now_ms: self._total * 1000 / self._window_ms
                  if self._samples and now_ms - self._samples[-1][0] < self._window_ms else 0.0)  # fmt: skip


def removed_throttle_stays(patch: Patch) -> None:
    """A broker keeps the last rate when the setting is removed: replicas that were held are never in sync again."""
    right = ReplicaThrottle.limit_to
    patch.setattr(
        ReplicaThrottle,
        "limit_to",
        lambda self, limit: None if limit == UNLIMITED else right(self, limit),
    )


def silence_is_not_noticed(patch: Patch) -> None:
    """A follower that a cut link separates from its leader holds acks=all for replica.lag.time.max.ms."""
    patch.setattr(FollowerSilence, "tick", lambda self, now_ms: False)


def silence_counts_below_min_isr(patch: Patch) -> None:
    """Silent followers leave the set, even if producers are refused then."""
    right = InSync.tick

    def tick(self: InSync, log_end: int, now_ms: int) -> None:
        min_isr, self.min_isr = self.min_isr, 1
        right(self, log_end, now_ms)
        self.min_isr = min_isr

    patch.setattr(InSync, "tick", tick)


def waiting_fetch_is_silence(patch: Patch) -> None:
    """The time counts from a fetch, although the leader has not answered it."""
    patch.setattr(FollowerSilence, "answered", lambda self, broker_id, now_ms: None)
    right = FollowerSilence.fetched

    def fetched(self: FollowerSilence, broker_id: int, now_ms: int) -> None:
        right(self, broker_id, now_ms)
        if broker_id in self._heard:
            self._heard[broker_id].asking = 0

    patch.setattr(FollowerSilence, "fetched", fetched)


def dropped_replica_holds_the_high_watermark(patch: Patch) -> None:
    """A replica that comes back delays acks=all while it catches up."""

    def commit(self: InSync, isr: frozenset[int]) -> None:
        self.isr = self.maximal = isr
        self.proposal = None
        self.unsent = False

    patch.setattr(InSync, "_commit", commit)


def deletes_here_alone(patch: Patch) -> None:
    """DeleteRecords is answered when the leader has deleted: the next one shows the records again."""
    patch.setattr(InSync, "low_watermark", lambda self, log_start: log_start)


def unknown_followers_have_deleted(patch: Patch) -> None:
    """DeleteRecords does not wait for followers that have not fetched yet in this leader epoch."""

    def low_watermark(self: InSync, log_start: int) -> int:
        starts = [each.log_start_offset for each in self.followers.values() if each.log_start_offset >= 0]
        return min([log_start, *starts])

    patch.setattr(InSync, "low_watermark", low_watermark)


def old_incarnation_has_deleted(patch: Patch) -> None:
    """The log start of a follower counts that it had before its restart, and may have lost."""

    def low_watermark(self: InSync, log_start: int) -> int:
        followers = self.followers.items()
        starts = [each.log_start_offset for broker_id, each in followers if self._is_counted(broker_id)]
        return min([log_start, *starts])

    patch.setattr(InSync, "low_watermark", low_watermark)


def deletion_waits_for_fenced_brokers(patch: Patch) -> None:
    """DeleteRecords waits for replicas that may be away for days."""
    patch.setattr(InSync, "_is_counted", lambda self, broker_id: True)


# One of so many seeds, starting at 1, must find the defect. The soak test searches the defects with more than SEEDS_MAX
# seeds.
SEEDS_MAX = 120
DEFECTS: dict[Planter, int] = {
    diverging_fetch_acknowledges: 40,
    high_watermark_before_truncation: 20,
    fenced_replica_joins: 6,
    old_incarnation_acknowledges: 110,
    stopping_replica_holds_the_high_watermark: 6,
    moves_under_min_isr: 6,
    answer_of_an_older_epoch_counts: 120,
    proposed_replica_does_not_count: 60,
    joins_behind_the_epoch_start: 100,
    joins_although_it_is_far_behind: 40,
    unknown_followers_do_not_count: 60,
    epochs_are_not_truncated: 120,
    high_watermark_below_log_start: 10,
    log_start_above_high_watermark: 10,
    fetches_before_the_write: 20,
    truncates_to_the_high_watermark: 6,
    takes_any_answer: 6,
    fetch_of_an_older_epoch_acknowledges: 100,
    throttle_holds_replicas_in_sync: 6,
    throttle_forgets_at_each_window: 20,
    removed_throttle_stays: 20,
    silence_is_not_noticed: 60,
    silence_counts_below_min_isr: 20,
    waiting_fetch_is_silence: 200,
    dropped_replica_holds_the_high_watermark: 60,
    deletes_here_alone: 6,
    unknown_followers_have_deleted: 20,
    old_incarnation_has_deleted: 60,
    deletion_waits_for_fenced_brokers: 20,
}
