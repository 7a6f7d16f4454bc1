"""Windows of lag samples, bounded, for every watched partition of every group."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from operator import le

from broker_cy.admin.group_lag import GroupLag
from broker_cy.admin.lag import Sample, Status, Trend, judge, sum_of, trend, worst
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.turns import Turns

# Samples of a window: two minutes at one sample every 10 s.
SAMPLES_MAX = 12
# Partitions that are watched, over all groups: about 140 MB. Further ones get no status, and their groups no trend.
WINDOWS_MAX = 200_000
# A sample is five numbers; -1 stands for an unknown one.
_FIELDS = 5
_UNKNOWN = -1


class Window:
    """The last samples of one partition of one group, 40 bytes each."""

    __slots__ = ("_numbers", "seen_at_ms")

    def __init__(self) -> None:
        self._numbers = array("q")
        self.seen_at_ms = 0

    def add(self, sample: Sample, samples_max: int) -> None:
        """Add a sample, and drop the oldest beyond the limit."""
        self._numbers.extend(
            (
                sample.at_ms,
                sample.committed,
                sample.end,
                _UNKNOWN if sample.commit_ms is None else sample.commit_ms,
                _UNKNOWN if sample.has_members is None else int(sample.has_members),
            )
        )
        if len(self._numbers) > samples_max * _FIELDS:
            del self._numbers[:_FIELDS]
        self.seen_at_ms = sample.at_ms

    def samples(self) -> list[Sample]:
        """The samples, the oldest first."""
        return [self._sample(at) for at in range(0, len(self._numbers), _FIELDS)]

    def _sample(self, at: int) -> Sample:
        at_ms, committed, end, commit_ms, has_members = self._numbers[at : at + _FIELDS]
        return Sample(
            at_ms,
            committed,
            end,
            None if commit_ms == _UNKNOWN else commit_ms,
            None if has_members == _UNKNOWN else bool(has_members),
        )

    @property
    def last(self) -> Sample | None:
        """The last sample."""
        return self._sample(len(self._numbers) - _FIELDS) if self._numbers else None

    @property
    def lag(self) -> int:
        """The lag in the last sample; 0 without samples."""
        numbers = self._numbers
        return max(0, numbers[-_FIELDS + 2] - numbers[-_FIELDS + 1]) if numbers else 0

    def trend(self) -> Trend | None:
        """Return `trend` of the samples. If no committed offset was moved back, it is that of the first and the last
        sample, and the others are not decoded.
        """
        numbers = self._numbers
        committed = numbers[1::_FIELDS]
        if len(committed) > 1 and all(map(le, committed, committed[1:])):
            return trend([self._sample(0), self._sample(len(numbers) - _FIELDS)])
        return trend(self.samples())

    def status(self) -> Status:
        """Return `judge` of the samples, which are not decoded if the group keeps up, as most groups do."""
        numbers = self._numbers
        if numbers and numbers[-_FIELDS + 1] >= numbers[-_FIELDS + 2]:
            return Status.OK
        return judge(self.samples())


class LagHistory:
    """Samples of the groups' lag, from which their status follows.

    Call `note` after each sample. A partition that a sample of its group does not contain is forgotten, and so is a
    group that `keep` does not name.
    """

    def __init__(self, *, samples_max: int = SAMPLES_MAX, windows_max: int = WINDOWS_MAX) -> None:
        if samples_max < 2:
            raise ValueError(f"a window of {samples_max} samples: at least 2 are needed to see a change")
        self._samples_max = samples_max
        self._windows_max = windows_max
        self._groups: dict[str, dict[TopicPartition, Window]] = {}
        # Groups with a lag in partitions beyond `windows_max`.
        self._partly: set[str] = set()
        self._count = 0

    def note(self, lags: Iterable[GroupLag], at_ms: int, has_members: Mapping[str, bool] | None = None) -> int:
        """Add one sample, taken at `at_ms`; returns how many partitions exceed the limit and are not watched."""
        refused = 0
        for group in lags:
            windows = self._groups.setdefault(group.group_id, {})
            members = None if has_members is None else has_members.get(group.group_id)
            is_partly = False
            for part in group.partitions:
                position = part.position
                if part.end is None or position is None:
                    continue
                window = windows.get(part.partition)
                if window is None:
                    if self._count >= self._windows_max:
                        refused += 1
                        is_partly = is_partly or bool(part.lag)
                        continue
                    window = windows[part.partition] = Window()
                    self._count += 1
                window.add(Sample(at_ms, position, part.end, part.commit_ms, members), self._samples_max)
            (self._partly.add if is_partly else self._partly.discard)(group.group_id)
            gone = [key for key, window in windows.items() if window.seen_at_ms != at_ms]
            for key in gone:
                del windows[key]
            self._count -= len(gone)
        return refused

    def keep(self, group_ids: Iterable[str]) -> None:
        """Forget every group that is not among these."""
        wanted = set(group_ids)
        for group_id in [each for each in self._groups if each not in wanted]:
            self._count -= len(self._groups.pop(group_id))
            self._partly.discard(group_id)

    def samples(self, group_id: str, partition: TopicPartition) -> list[Sample]:
        """The window of one partition, the oldest sample first."""
        window = self._groups.get(group_id, {}).get(partition)
        return [] if window is None else window.samples()

    def last(self, group_id: str) -> dict[TopicPartition, Sample]:
        """The last sample of each watched partition of a group."""
        windows = self._groups.get(group_id, {})
        return {key: sample for key, window in windows.items() if (sample := window.last) is not None}

    def status(self, group_id: str) -> Status:
        """The status of the group: that of its worst partition; UNKNOWN for a group without samples."""
        windows = self._groups.get(group_id)
        if windows is None:
            return Status.UNKNOWN
        return worst(window.status() for window in windows.values())

    async def judged(
        self, group_id: str, wanted: Callable[[TopicPartition], bool] | None = None
    ) -> tuple[Status, Trend | None]:
        """`status` and `trend` of a group, in turns: a group may have 100,000 partitions. With `wanted`, only
        partitions count for which it returns true.
        """
        windows = self._groups.get(group_id)
        if windows is None:
            return Status.UNKNOWN, None
        turns = Turns()
        statuses: set[Status] = set()
        trends: list[tuple[int, Trend | None]] = []
        for key, window in list(windows.items()):
            if wanted is None or wanted(key):
                statuses.add(window.status())
                trends.append((window.lag, window.trend()))
            await turns.pause()
        return worst(statuses), None if group_id in self._partly else sum_of(trends)

    def trend(self, group_id: str) -> Trend | None:
        """Velocity of the group and its time to catch up; None with too few samples of a partition with lag."""
        if group_id in self._partly:
            return None
        return sum_of((window.lag, window.trend()) for window in self._groups.get(group_id, {}).values())
