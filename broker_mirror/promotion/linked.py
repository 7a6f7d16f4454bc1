"""The promotion of mirrors: after the last record of the source was copied, or immediately without a source."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin.configs import AlterOp, ConfigChange, ConfigResource, ResourceType
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.mirror_links import MirrorTopic
from broker_cy.admin.offsets import Isolation
from broker_cy.core.mirror_settings import LINK
from broker_mirror.link.mirrors import mirrors_in

LOOK_S: Final = 0.2
"""The time between two looks at the lag."""
SETTLE_S: Final = 10.0
"""How long the leaders of promoted topics may take to end the transactions of the source."""


class Ends(NamedTuple):
    """The ends of the partitions of a mirror at a time. None: not known. `stable` is the end for readers of committed
    records.
    """

    source: int | None
    target: int | None
    stable: int | None


@dataclass(frozen=True, slots=True)
class PromotionRow:
    """A topic. `lag` are the records of its source that were not copied yet, `waiting` the partitions that have some,
    and `open` those with a transaction that has not ended. `left` are the records of the source that the promoted topic
    does not have. None: the source does not answer. `state` is "mirror", "promoted", or "promoted before"; `problem`
    says why it could not be promoted.
    """

    topic: str
    link: str
    source: str
    partitions: int
    lag: int | None
    waiting: int | None
    open: int
    state: str = "mirror"
    left: int | None = None
    problem: str = ""

    @property
    def is_complete(self) -> bool:
        return self.waiting == 0 and self.open == 0 and not self.problem


Show = Callable[[Sequence[PromotionRow]], None]


async def wait_until_copied(
    look: Callable[[], Awaitable[tuple[list[PromotionRow], Sequence[int | None]]]],
    interval_s: float,
    timeout_s: float,
    show: Show,
) -> list[PromotionRow]:
    """Wait until all rows are complete, and the source has no record more at two looks. `look` returns the rows, and
    the ends of the partitions in the source, in the same order each time. Returns the rows of the last look; not all
    of them are complete if the time was over. Raises ClientError.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    before: Sequence[int | None] = []
    while True:
        rows, ends = await look()
        show(rows)
        if all(row.is_complete for row in rows) and ends == before:
            return rows
        before = ends
        if loop.time() >= deadline_s:
            # Complete rows whose source has just got more records count as waiting, too.
            return [replace(row, waiting=max(1, row.waiting or 0)) if row.is_complete else row for row in rows]
        await asyncio.sleep(interval_s)


def row_of(mirror: MirrorTopic, ends: Mapping[TopicPartition, Ends], in_source: int | None = None) -> PromotionRow:
    """Return the state of a topic with these ends of its partitions (by the key in the target). `in_source` is the
    number of partitions of its source, None: not known.
    """
    known = [ends[key] for key in mirror.keys]
    lags = [None if each.source is None or each.target is None else max(0, each.source - each.target) for each in known]
    numbers = [each for each in lags if each is not None]
    is_known = len(numbers) == len(lags)
    return PromotionRow(
        mirror.name,
        mirror.link or "",
        mirror.source,
        mirror.partitions,
        sum(numbers) if is_known else None,
        sum(each > 0 for each in numbers) if is_known else None,
        sum(each.target is not None and each.stable is not None and each.stable < each.target for each in known),
        "mirror" if mirror.link is not None else "promoted before",
        problem=f"its source has {in_source} partitions" if (in_source or 0) > mirror.partitions else "",
    )


class Promotion:
    """The promotion of some topics. `source` is None if it is not known. If it is forced, a source that does not answer
    is not asked again.
    """

    def __init__(
        self,
        source: AdminClient | None,
        target: AdminClient,
        mirrors: Iterable[MirrorTopic],
        *,
        is_forced: bool = False,
    ) -> None:
        self._source, self._target, self._is_forced = source, target, is_forced
        self.mirrors = [each for each in mirrors if each.link is not None]
        self._counts: dict[str, int] = {}  # of partitions, by topic of the source

    async def rows(self) -> list[PromotionRow]:
        """Return the topics as they are now. Raises ClientError if the target does not answer."""
        return self._rows(await self._ends())

    def _rows(self, ends: Mapping[TopicPartition, Ends]) -> list[PromotionRow]:
        return [row_of(mirror, ends, self._counts.get(mirror.source)) for mirror in self.mirrors]

    async def wait(self, timeout_s: float, show: Show) -> list[PromotionRow]:
        """Wait until everything was copied, and no transaction is open: see `wait_until_copied`."""

        async def look() -> tuple[list[PromotionRow], Sequence[int | None]]:
            ends = await self._ends()
            return self._rows(ends), [each.source for each in ends.values()]

        return await wait_until_copied(look, LOOK_S, timeout_s, show)

    async def promote(self) -> list[PromotionRow]:
        """Promote the topics, and return what became of them. Raises ClientError if the target does not answer."""
        changes = {
            ConfigResource(ResourceType.TOPIC, mirror.name): (ConfigChange(LINK, AlterOp.DELETE),)
            for mirror in self.mirrors
        }
        outcome = await self._target.configs.alter(changes)
        failed = {resource.name: str(error) for resource, error in outcome.failed.items()}
        done = [mirror for mirror in self.mirrors if mirror.name not in failed]
        await self._settled(done)
        rows = []
        for mirror, row in zip(self.mirrors, self._rows(await self._ends()), strict=True):
            if mirror.name in failed:
                rows.append(replace(row, problem=failed[mirror.name]))
            else:
                rows.append(replace(row, state="promoted", left=row.lag))
        return rows

    async def _settled(self, mirrors: Sequence[MirrorTopic]) -> None:
        """Wait until the leaders have promoted the topics, and have ended the transactions that were open."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + SETTLE_S
        keys = [key for mirror in mirrors for key in mirror.keys]
        while keys and loop.time() < deadline_s:
            ends = (await self._target.offsets.latest(keys)).found
            stable = (await self._target.offsets.latest(keys, isolation=Isolation.READ_COMMITTED)).found
            if (
                ends == stable
                and len(ends) == len(keys)
                and not any(
                    each.link for each in (await mirrors_in(self._target, [each.name for each in mirrors])).values()
                )
            ):
                return
            await asyncio.sleep(LOOK_S)

    async def _ends(self) -> dict[TopicPartition, Ends]:
        """Return the ends by the key in the target."""
        keys = [key for mirror in self.mirrors for key in mirror.keys]
        if not keys:
            return {}
        target = (await self._target.offsets.latest(keys)).whole()
        stable = (await self._target.offsets.latest(keys, isolation=Isolation.READ_COMMITTED)).whole()
        source: dict[TopicPartition, int] = {}
        if self._source is not None:
            sources = {key for mirror in self.mirrors for key in mirror.sources}
            try:
                caller = self._source.caller
                infos, _ = await caller.metadata.refresh({key.topic for key in sources}, caller.deadline())
                self._counts = {name: len(info.partitions) for name, info in infos.items()}
                source = (await self._source.offsets.latest(sources)).found
            except ClientError:
                source = {}
                if self._is_forced:
                    self._source = None
        return {
            key: Ends(source.get(other), target.get(key), stable.get(key))
            for mirror in self.mirrors
            for key, other in zip(mirror.keys, mirror.sources, strict=True)
        }
