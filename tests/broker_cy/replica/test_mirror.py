"""The state machine of a mirror on its leader. The simulation has its faults (tests/sim/mirror_world.py)."""

from __future__ import annotations

from uuid import UUID

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import PartitionImage
from broker_cy.replica import following
from broker_cy.replica import leading as leading_module
from broker_cy.replica.broker_status import BrokerStatus
from broker_cy.replica.following import NONE, Answer, Ask, BatchSpan, Step
from broker_cy.replica.in_sync import InSync
from broker_cy.replica.leading import FollowerFetch
from broker_cy.replica.mirror import Act, Mirror, Source
from broker_cy.replica.replica import Replica, Role
from broker_cy.replica.silence import FollowerSilence
from broker_cy.storage.epochs import LeaderEpochs

TOPIC, OTHER = UUID(int=7_000), UUID(int=8_000)


def leading(end: int = 0) -> Replica:
    replica = Replica(0)
    replica.become(Role.LEADER, 5)
    replica.open(end, end)
    return replica


def fetching(epoch: int = 5) -> Mirror:
    mirror = Mirror(5, TOPIC)
    mirror.found(Source(TOPIC, 1, epoch), NONE)
    return mirror


def want(mirror: Mirror) -> Act:
    return mirror.want


def epochs_of(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs("/nowhere", list(entries))


def test_the_acts_come_in_their_order() -> None:
    """If this fails, a mirror copies from a topic that is not pinned, or in an epoch that its leader does not have."""
    mirror = Mirror(0, None)
    assert want(mirror) is Act.LOOK_UP
    mirror.found(Source(TOPIC, NONE, 4), NONE)
    assert want(mirror) is Act.LOOK_UP, "the source has no leader"
    mirror.found(Source(TOPIC, 1, 5), NONE)
    assert (want(mirror), mirror.topic_id) == (Act.PIN, TOPIC)
    mirror.pinned(TOPIC)
    assert want(mirror) is Act.RAISE
    mirror.led(4)
    assert want(mirror) is Act.RAISE
    mirror.led(5)
    assert want(mirror) is Act.FETCH
    mirror.is_paused = True
    assert want(mirror) is Act.NOTHING
    mirror.is_paused = False
    mirror.lost(4)
    assert want(mirror) is Act.FETCH, "an earlier leader was lost"
    mirror.lost(5)
    assert want(mirror) is Act.LOOK_UP
    mirror.found(Source(TOPIC, 2, 4), NONE)
    assert want(mirror) is Act.LOOK_UP, "these metadata are older"
    mirror.found(Source(TOPIC, 2, 6), NONE)
    assert want(mirror) is Act.RAISE


def test_another_topic_id_ends_the_flow() -> None:
    """If this fails, a source that was deleted and created again empties the mirror."""
    mirror = fetching()
    mirror.found(Source(OTHER, 1, 9), NONE)
    assert want(mirror) is Act.NOTHING
    assert "deleted and created again" in str(mirror.failure)
    mirror = fetching()
    mirror.pinned(OTHER)
    assert want(mirror) is Act.NOTHING


def test_a_leader_of_an_epoch_before_the_log_is_not_asked() -> None:
    """If this fails, a new leader that reaches a deposed leader of the source truncates records that are committed."""
    mirror = Mirror(9, TOPIC)
    mirror.found(Source(TOPIC, 1, 3), 4)
    assert want(mirror) is Act.LOOK_UP
    mirror.found(Source(TOPIC, 2, 4), 4)
    assert want(mirror) is Act.FETCH


def test_only_committed_batches_of_the_fetched_epoch_are_taken() -> None:
    """If this fails, consumers of a mirror read records that the source takes back."""
    mirror, replica, epochs = fetching(), leading(10), epochs_of((2, 0))
    asked = mirror.ask(replica, epochs)
    assert asked == (5, 10, 2)
    batches = [BatchSpan(10, 12, 2), BatchSpan(12, 15, 5), BatchSpan(15, 20, 5)]
    step = mirror.take(replica, asked, Answer(16, 3, None, batches), epochs, 0)
    assert (step.append, step.truncate_to, step.is_ignored) == (2, NONE, False)
    assert (mirror.source_high, mirror.source_start) == (16, 3)
    later = [BatchSpan(10, 12, 2), BatchSpan(12, 15, 6)]
    assert mirror.take(replica, asked, Answer(20, 0, None, later), epochs, 0).append == 1
    replica.report_staged(12, 1)
    assert mirror.ask(replica, epochs) is None, "records are not written"
    assert mirror.take(replica, asked, Answer(20, 0, None, batches), epochs, 0).is_ignored


def test_it_truncates_as_a_follower_but_never_everything() -> None:
    """If this fails, an unclean election of the source leaves two logs, or a wrong setting empties a topic."""
    mirror, replica, epochs = fetching(), leading(10), epochs_of((2, 4), (3, 8))
    asked = mirror.ask(replica, epochs)
    assert asked is not None
    assert mirror.take(replica, asked, Answer(9, 0, (2, 6)), epochs, 4).truncate_to == 6
    assert mirror.take(replica, asked, Answer(9, 0, (1, 4)), epochs, 4).is_ignored
    assert "shares no record" in str(mirror.failure)
    mirror = fetching()
    assert mirror.out_of_range(4, 10, 0, 7) == Step(truncate_to=7)
    assert mirror.out_of_range(4, 10, 30, 30) == Step(restart_at=30)
    assert mirror.out_of_range(4, 10, 0, 12) is None
    mirror.out_of_range(4, 10, 0, 4)
    assert want(mirror) is Act.NOTHING


def test_a_log_begins_again_with_the_first_batch_of_the_source() -> None:
    """The source has deleted records up to an offset within a batch. If this fails, the mirror begins again at that
    offset, and then before it: a consumer that is there gets OFFSET_OUT_OF_RANGE, and may read everything again.
    """
    mirror, replica, epochs = fetching(), leading(10), epochs_of((2, 4))
    assert mirror.out_of_range(4, 10, 38, 72) == Step()
    asked = mirror.ask(replica, epochs)
    assert asked == Ask(5, 38, NONE)
    assert mirror.take(replica, asked, Answer(72, 38), epochs, 4) == Step(), "the records come with a later answer"
    batches = [BatchSpan(35, 39, 1), BatchSpan(39, 44, 1)]
    step = mirror.take(replica, asked, Answer(72, 38, None, batches), epochs, 4)
    assert (step.restart_at, step.append) == (35, 2)
    assert mirror.ask(replica, epochs) == Ask(5, 10, 2)

    # A compacted source, and one whose next leader has more.
    assert mirror.out_of_range(4, 10, 38, 72) == Step()
    step = mirror.take(replica, asked, Answer(72, 38, None, [BatchSpan(40, 44, 1)]), epochs, 4)
    assert (step.restart_at, step.append) == (38, 1)
    assert mirror.out_of_range(4, 10, 38, 72) == Step()
    assert mirror.out_of_range(4, 10, 10, 72) is None
    assert mirror.ask(replica, epochs) == Ask(5, 10, 2)


def test_a_log_that_begins_again_is_not_read_before_its_followers_begin_there() -> None:
    """If this fails, a consumer reads at an offset that the next leader does not have: it gets OFFSET_OUT_OF_RANGE, and
    may read everything again.
    """
    statuses = {1: BrokerStatus(7, True), 2: BrokerStatus(8, True)}
    in_sync = InSync(1, statuses, 10_000, 1, FollowerSilence(0, 10_000, statuses))
    replica, follower = leading(10), Replica(0)
    replica.lead(in_sync, PartitionImage((1, 2), (1, 2), 1, 6, 0), 0)
    replica.fetched(2, 8, 10, 0, 1)
    assert replica.restarted(70)["high_watermark"] == replica.begun_at == 70
    replica.wrote(80, 80, 2**62)
    replica.fetched(2, 8, 10, 0, 2)
    assert replica.begun_at == 70
    replica.fetched(2, 8, 70, 70, 3)
    assert (replica.begun_at, replica.high["offset"]) == (NONE, 70)

    follower.follow(6)
    follower.open(10, 10, 10)
    follower.restarted(70)
    follower.learn(0)
    assert follower.begun_at == 70, "its leader may not be read yet"
    follower.learn(70)
    assert follower.begun_at == NONE

    alone = leading(10)
    alone.restarted(70)
    assert alone.begun_at == NONE


def test_an_empty_log_begins_again_at_the_start_of_the_source() -> None:
    """If this fails, the reversal of a mirror whose records were deleted asks for the same fetch again without end."""
    mirror, replica = fetching(), leading(75)
    assert mirror.out_of_range(75, 75, 60, 60) == Step(restart_at=60)
    assert mirror.out_of_range(75, 75, 4, 60) == Step()
    asked = mirror.ask(replica, epochs_of())
    assert asked == Ask(5, 4, NONE)
    step = mirror.take(replica, asked, Answer(60, 4, None, [BatchSpan(4, 9, 1)]), epochs_of(), 75)
    assert (step.restart_at, step.append) == (4, 1)
    assert mirror.failure is None


def test_followers_have_nothing_of_what_follows_a_truncation() -> None:
    """If this fails, the leader of a mirror that was truncated commits records that its followers do not have."""
    statuses = {1: BrokerStatus(7, True), 2: BrokerStatus(8, True)}
    in_sync = InSync(1, statuses, 10_000, 1, FollowerSilence(0, 10_000, statuses))
    replica = leading(10)
    replica.lead(in_sync, PartitionImage((1, 2), (1, 2), 1, 6, 0), 0)
    assert replica.fetched(2, 8, 10, 0, 1)["high_watermark"] == 10
    assert replica.truncated(6)["high_watermark"] == 6
    assert replica.wrote(9, 9, 2**62)["high_watermark"] == 6
    assert replica.fetched(2, 8, 9, 0, 2)["high_watermark"] == 9
    assert replica.restarted(4)["high_watermark"] == 4
    assert replica.wrote(8, 8, 2**62)["high_watermark"] == 4


@pytest.mark.parametrize("role", [Role.FOLLOWER, Role.OFFLINE])
def test_only_a_leader_fetches_from_the_source(role: Role) -> None:
    """If this fails, a replica that has become a follower appends from two places."""
    replica = Replica(0)
    if role == Role.FOLLOWER:
        replica.follow(5)
    assert fetching().ask(replica, epochs_of()) is None


def test_a_follower_without_records_begins_again_with_its_leader() -> None:
    """A mirror whose records were all deleted begins again at the log start of its source after a reversal. If this
    fails, a follower that was away meanwhile joins at the former end, also if another broker leads by then. Elected, it
    lacks what was copied before that.
    """
    statuses = {1: BrokerStatus(7, True), 2: BrokerStatus(8, True)}

    class Log:
        log_start_offset, written_end_offset = 4, 90

        def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
            return epoch, self.written_end_offset

    def judged(
        offset: int, start: int | None = None, epoch: int = leading_module.NO_EPOCH, *, has_mirrored: bool = True
    ) -> leading_module.Verdict:
        # A leader that knows nothing of the leaders before it.
        in_sync = InSync(1, statuses, 10_000, 1, FollowerSilence(0, 10_000, statuses))
        replica = leading(90)
        replica.lead(in_sync, PartitionImage((1, 2), (1, 2), 1, 6, 0), 0)
        fetch = FollowerFetch(2, 8, 6, offset, epoch, offset if start is None else start)
        return leading_module.judge(replica, Log(), fetch, has_mirrored)

    assert judged(75).diverging == (6, 4)
    assert following.truncation(epochs_of(), 75, (6, 4)) == 4
    assert following.begin_again(Step(truncate_to=4), 75, 4).restart_at == 4
    assert judged(4).is_acknowledging
    assert judged(75, epoch=5).is_acknowledging, "it has records, whose epoch shows where they are from"
    assert judged(75, has_mirrored=False).is_acknowledging, "the log of no other topic begins again at a lower offset"
    Log.log_start_offset = 75
    assert judged(75).is_acknowledging
    Log.log_start_offset = 80
    assert judged(75).error == ErrorCode.OFFSET_OUT_OF_RANGE
