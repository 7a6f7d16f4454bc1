"""Lag in records and in time, and how groups are judged by it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.caller import Outcome
from broker_cy.admin.group_lag import GroupLag, PartitionLag
from broker_cy.admin.lag import Sample, Status, catch_up_s, judge, sum_of, time_lag_ms, trend, worst
from broker_cy.admin.lag_history import LagHistory
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.core.errors import ErrorCode
from broker_cy.wire.records import Record
from tests.broker_cy.admin.conftest import Run

SECOND = 1_000


def window(
    *pairs: tuple[int, int], members: bool | None = None, commits: tuple[int, ...] | None = None
) -> list[Sample]:
    """Return samples a second apart, of (committed, end)."""
    return [
        Sample(index * SECOND, committed, end, None if commits is None else commits[index], members)
        for index, (committed, end) in enumerate(pairs)
    ]


@pytest.mark.parametrize(
    ("samples", "status"),
    [
        ([], Status.UNKNOWN),
        (window((5, 5)), Status.OK),
        (window((3, 5)), Status.UNKNOWN),
        # Progresses, and its lag goes up and down.
        (window((0, 10), (10, 25), (20, 30)), Status.OK),
        # Had no lag in the previous sample.
        (window((10, 10), (10, 20)), Status.OK),
        # A commit that is newer than the sampled end is not a lag.
        (window((10, 20), (22, 20)), Status.OK),
        # Progresses, and falls behind in every sample.
        (window((0, 10), (5, 25), (10, 40)), Status.WARN),
        (window((0, 10), (5, 15), (10, 21)), Status.WARN),
        # A constant lag is that of a consumer that commits occasionally.
        (window((0, 10), (5, 15), (10, 20)), Status.OK),
        # Does not progress, and records wait.
        (window((5, 10), (5, 10), (5, 10)), Status.STALLED),
        (window((5, 10), (5, 12), (5, 19), members=True), Status.STALLED),
        # Has no members.
        (window((5, 10), (5, 12), (5, 19), members=False), Status.STOPPED),
        # Has no members any more, but had some within the window.
        (window((5, 10), (6, 12), (7, 19), members=False), Status.WARN),
        # Commits the same offset repeatedly: stalled. The last commit is older than the span of all commits: stopped.
        (window((5, 10), (5, 10), (5, 10), commits=(0, 1000, 2000)), Status.STALLED),
        (window((5, 90), (6, 90), (6, 90), (6, 90), commits=(0, 500, 500, 500)), Status.STOPPED),
        (window((5, 90), (5, 90), (5, 90), commits=(-9000, -9000, -9000)), Status.STOPPED),
        # The samples are closer together than its commits.
        (window((5, 90), (5, 90), (5, 90), commits=(-9000, -9000, -9000), members=True), Status.STALLED),
        # Went back, and has not caught up; then it has; then it lags normally.
        (window((50, 60), (10, 60), (20, 61)), Status.REWOUND),
        (window((60, 60), (10, 60)), Status.REWOUND),
        (window((50, 60), (10, 60), (60, 60), (61, 62)), Status.OK),
    ],
)
def test_groups_are_judged(samples: list[Sample], status: Status) -> None:
    """If this fails, a stalled group is reported as healthy, or an operator is woken up because of a healthy one."""
    assert judge(samples) is status


def test_a_group_is_as_its_worst_partition() -> None:
    """If this fails, one partition that no member reads is hidden by fifty that are read."""
    assert worst([Status.OK, Status.STALLED, Status.WARN]) is Status.STALLED
    assert worst([]) is Status.OK


def test_velocity_and_time_to_catch_up() -> None:
    """If this fails, the time to catch up is wrong, or promised to a group that falls behind."""
    gaining = trend(window((0, 1000), (300, 1100), (600, 1200)))
    assert gaining is not None
    assert (gaining.consumed_per_s, gaining.produced_per_s) == (300, 100)
    assert gaining.lag_per_s == -200
    assert gaining.catch_up_s == 3.0  # 600 records at 200 a second
    losing = trend(window((0, 1000), (50, 1100)))
    assert losing is not None
    assert losing.catch_up_s is None
    # After a rewind, only samples after it count.
    rewound = trend(window((900, 1000), (0, 1000), (500, 1000)))
    assert rewound is not None
    assert (rewound.consumed_per_s, rewound.catch_up_s) == (500, 1.0)
    assert trend(window((1, 2))) is None
    assert trend([Sample(5, 1, 2), Sample(5, 2, 2)]) is None
    assert catch_up_s(0, -5.0) == 0.0
    both = sum_of([(600, gaining), (1050, losing), (0, None)])
    assert both is not None
    assert both.consumed_per_s == 350
    assert both.catch_up_s is None
    assert sum_of([(5, None)]) is None


def test_a_lag_without_rates_is_not_promised_to_be_gone() -> None:
    """If this fails, "catch-up 0 ms" stands beside the lag of a group that was sampled once, or only in part."""
    history = LagHistory(windows_max=2)
    history.note([lag_of("new", (0, 9, 9))], SECOND)
    # The group has committed its first offset in partition 1.
    history.note([lag_of("new", (0, 10, 10), (1, 5, 90))], 2 * SECOND)
    assert history.trend("new") is None
    history.note([lag_of("new", (0, 11, 11), (1, 15, 90))], 3 * SECOND)
    trend_of = history.trend("new")
    assert trend_of is not None
    assert trend_of.catch_up_s == 7.5
    # Partition 2 has a lag, and is not watched.
    history.note([lag_of("new", (0, 11, 11), (1, 90, 90), (2, 5, 90))], 4 * SECOND)
    assert history.trend("new") is None
    assert asyncio.run(history.judged("new")) == (Status.OK, None)
    history.note([lag_of("new", (0, 11, 11), (1, 90, 90), (2, 90, 90))], 5 * SECOND)
    assert history.trend("new") is not None


def test_time_lag() -> None:
    """If this fails, a group without lag is reported as late, or a clock that is ahead gives a negative time."""
    assert time_lag_ms(0, 5, 100) == 0
    assert time_lag_ms(1, 40, 100) == 60
    assert time_lag_ms(1, 140, 100) == 0
    assert time_lag_ms(1, None, 100) is None


def lag_of(group_id: str, *parts: tuple[int, int, int | None]) -> GroupLag:
    return GroupLag(
        group_id,
        tuple(
            PartitionLag(TopicPartition("t", index), committed, 0, end, problem=None) for index, committed, end in parts
        ),
    )


def test_judging_in_turns_gives_the_same() -> None:
    """If this fails, a list of groups shows another status than the screen of one group."""
    history = LagHistory()
    looks = {"ok": ((5, 9), (9, 9)), "warn": ((1, 5), (2, 9)), "rewound": ((5, 9), (2, 9)), "one": ((1, 5),)}
    for at, _ in enumerate(range(2)):
        lags = [
            GroupLag(group, tuple(PartitionLag(TopicPartition("t", n), each[at][0], 0, each[at][1]) for n in range(3)))
            for group, each in looks.items()
            if at < len(each)
        ]
        history.note(lags, 1_000 * (at + 1))
    for group in looks:
        samples = [history.samples(group, TopicPartition("t", n)) for n in range(3)]
        assert history.trend(group) == sum_of((each[-1].lag, trend(each)) for each in samples)
        assert history.status(group) is worst(judge(each) for each in samples)
    for group in (*looks, "absent"):
        assert asyncio.run(history.judged(group)) == (history.status(group), history.trend(group))
    assert history.status("warn") is Status.WARN


def test_share_groups_are_judged_by_their_lag() -> None:
    """If this fails, a share group that has completed every record is reported as stalled: its start offset stays where
    the last record of its state put it.
    """
    history = LagHistory()
    key = TopicPartition("t", 0)
    for look, (idle, busy, unknown) in enumerate([(0, 90, None), (0, 40, None)]):
        lags = [
            GroupLag(group, (PartitionLag(key, 7, 0, end, incomplete=incomplete),))
            for group, end, incomplete in (("idle", 8, idle), ("busy", 100, busy), ("none", unknown, 0))
        ]
        history.note(lags, (look + 1) * SECOND, {"idle": True, "busy": True, "none": True})
    assert (history.status("idle"), history.samples("idle", key)[-1].lag) == (Status.OK, 0)
    assert (history.status("busy"), history.samples("busy", key)[-1].lag) == (Status.OK, 40)
    trend_of = history.trend("busy")
    assert trend_of is not None
    assert trend_of.consumed_per_s == 50
    assert history.samples("none", key) == []
    # Nothing is completed any more.
    history.note([GroupLag("stuck", (PartitionLag(key, 7, 0, 9, incomplete=2),))], SECOND, {"stuck": True})
    history.note([GroupLag("stuck", (PartitionLag(key, 7, 0, 9, incomplete=2),))], 2 * SECOND, {"stuck": True})
    assert history.status("stuck") is Status.STALLED


def test_the_history_is_bounded() -> None:
    """If this fails, watching many groups for a day exhausts the memory, or deleted groups are judged forever."""
    history = LagHistory(samples_max=3, windows_max=3)
    key = TopicPartition("t", 0)
    for look in range(1, 10):
        refused = history.note([lag_of("g", (0, 5, 10 + look), (1, 7, 7))], look * SECOND, {"g": True})
        assert refused == 0
    samples = history.samples("g", key)
    assert [sample.at_ms for sample in samples] == [7000, 8000, 9000]
    assert samples[-1] == Sample(9000, 5, 19, None, True)
    assert history.status("g") is Status.STALLED
    trend_of = history.trend("g")
    assert trend_of is not None
    assert trend_of.produced_per_s == 1.0
    assert history.note([lag_of("h", (0, 1, 2), (1, 1, 2))], 10 * SECOND) == 1
    # A partition that is no longer reported makes room.
    history.note([lag_of("g", (1, 7, 7))], 11 * SECOND)
    assert history.samples("g", key) == []
    assert history.status("g") is Status.OK
    assert history.note([lag_of("h", (0, 1, 2), (1, 1, 2))], 12 * SECOND) == 0
    # A partition without a reported end is not judged.
    history.note([lag_of("g", (1, 7, None))], 13 * SECOND)
    assert history.samples("g", TopicPartition("t", 1)) == []
    history.keep(["g"])
    assert history.samples("h", key) == []
    assert history.status("h") is Status.UNKNOWN
    with pytest.raises(ValueError, match="at least 2"):
        LagHistory(samples_max=1)


class Noted:
    """A TimestampSource that knows the recorded timestamps."""

    def __init__(self, stamps: dict[TopicPartition, int | None]) -> None:
        self.stamps = stamps
        self.asked: list[tuple[str, dict[TopicPartition, int]]] = []

    async def unread_timestamps(
        self, group_id: str, parts: Collection[PartitionLag]
    ) -> Outcome[TopicPartition, int | None]:
        self.asked.append((group_id, {part.partition: part.first_unread for part in parts}))
        return Outcome({part.partition: self.stamps[part.partition] for part in parts}, {})


def test_lag_in_records_and_in_time(run: Run, name: str) -> None:
    """If this fails, the lag of a group is not the number of waiting records, or its time is not the age of the first
    one.
    """

    async def job(client: AdminClient) -> None:
        (await client.topics.create([NewTopic(name, 4, 1), NewTopic(f"{name}-gone", 1, 1)])).whole()
        now_ms = int(time.time() * 1000)
        behind, level, lost, silent = (TopicPartition(name, index) for index in range(4))
        gone = TopicPartition(f"{name}-gone", 0)
        producer = client.records.producer()
        # A record every 10 s, the last of them 5 s old.
        schedule = [now_ms - 5_000 - 10_000 * (19 - number) for number in range(20)]
        for key in (behind, level, lost):
            await producer.send_batch(key, [Record(timestamp=at, value=b"x") for at in schedule])
        committed = {behind: 15, level: 20, lost: 3, silent: 0, gone: 0}
        (await client.group_offsets.alter(name, committed)).whole()
        (await client.topics.delete_records({lost: 8})).whole()
        (await client.topics.delete([gone.topic])).whole()
        outcome = await client.lag.of([name, "no-such-group"])
        assert outcome.failed == {}
        assert outcome.found["no-such-group"].partitions == ()
        group = outcome.found[name]
        by_key = {part.partition: part for part in group.partitions}
        # A cluster may forget the offsets of a topic together with the topic.
        gone_part = by_key.pop(gone, None)
        assert gone_part is None or (gone_part.lag is None and gone_part.problem is not None)
        if gone_part is not None and gone_part.problem is not None:
            assert gone_part.problem.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert not group.is_complete
        assert {key: part.lag for key, part in by_key.items()} == {behind: 5, level: 0, lost: 17, silent: 0}
        assert {key: part.lost for key, part in by_key.items()} == {behind: 0, level: 0, lost: 5, silent: 0}
        assert group.total == 22
        times = await client.lag.times(group, now_ms)
        times.found.pop(gone, None)
        assert times.found == {behind: now_ms - schedule[15], level: 0, lost: now_ms - schedule[8], silent: 0}
        # The source that recorded timestamps at the commits is requested instead, and only for partitions that lag.
        noted = Noted({behind: now_ms - 7, lost: None})
        times = await client.lag.using(noted).times(group, now_ms)
        times.found.pop(gone, None)
        assert times.found == {behind: 7, level: 0, lost: None, silent: 0}
        assert noted.asked == [(name, {behind: 15, lost: 8})]

    run(job)
