"""Turns of carrying the offsets of groups over, between two clusters that only have groups."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast

from broker_cy.admin.caller import Outcome
from broker_cy.admin.group_offsets import Committed, CommittedOffset
from broker_cy.admin.group_values import GroupListing
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.mirror_links import MirrorTopic
from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.errors import ErrorCode
from broker_mirror.filters import NameFilter, pattern_of
from broker_mirror.link.group_sync import GroupSync
from broker_mirror.link.mirrors import by_source

KEY = TopicPartition("orders", 0)
MIRRORS = by_source([MirrorTopic("orders", "east", "orders", None, 1)])
EVERY = NameFilter(pattern_of("groups", [".*"]), None)


class Cluster:
    """The groups of a cluster with their committed offsets. `fetches` counts what was asked of each group."""

    def __init__(self, groups: Mapping[str, str], end: int = 100) -> None:
        """`groups`: their states."""
        self.states = dict(groups)
        self.offsets_of: dict[str, Committed] = {}
        self.end = end
        self.fetches: list[str] = []
        self.has_joined = False
        self.groups = SimpleNamespace(listed=self._listed)
        self.group_offsets = SimpleNamespace(fetch=self._fetch, alter=self._alter)
        self.offsets = SimpleNamespace(latest=self._latest)

    def commit(self, group: str, offset: int) -> None:
        self.offsets_of[group] = {KEY: CommittedOffset(offset, -1, "")}

    def committed(self, group: str) -> int | None:
        found = self.offsets_of.get(group, {}).get(KEY)
        return None if found is None else found.offset

    async def _listed(self) -> list[GroupListing]:
        return [GroupListing(name, "consumer", state, "consumer") for name, state in self.states.items()]

    async def _fetch(self, names: Iterable[str]) -> Outcome[str, Committed]:
        self.fetches += names
        return Outcome({name: dict(self.offsets_of.get(name, {})) for name in names}, {})

    async def _alter(
        self, group: str, offsets: Mapping[TopicPartition, int], texts: Mapping[TopicPartition, str]
    ) -> Outcome[TopicPartition, int]:
        if self.has_joined:
            raise ClientError(Failure.REFUSED, "a member has joined", code=ErrorCode.UNKNOWN_MEMBER_ID)
        self.commit(group, offsets[KEY])
        return Outcome(dict(offsets), {})

    async def _latest(self, keys: Iterable[TopicPartition]) -> Outcome[TopicPartition, int]:
        return Outcome(dict.fromkeys(keys, self.end), {})


def sync_of(source: Cluster, target: Cluster) -> GroupSync:
    return GroupSync(EVERY, cast(Any, source), cast(Any, target))


def test_a_turn_asks_the_target_only_about_groups_that_have_committed() -> None:
    """If this fails, each turn asks for the offsets of all groups, twice a second."""
    source, target = Cluster({"a": "Stable", "b": "Empty"}), Cluster({})
    source.commit("a", 10)
    source.commit("b", 20)
    sync = sync_of(source, target)

    async def job() -> None:
        await sync.turn(MIRRORS)
        assert (target.committed("a"), target.committed("b"), sync.carried) == (10, 20, {"a": 1, "b": 1})
        source.commit("a", 30)
        target.fetches.clear()
        await sync.turn(MIRRORS)
        assert (target.fetches, target.committed("a")) == (["a"], 30)
        del source.states["a"]
        await sync.turn(MIRRORS)
        assert (target.fetches, sync.carried) == (["a"], {"b": 1})

    asyncio.run(job())


def test_an_offset_behind_the_end_of_the_mirror_follows_it() -> None:
    """If this fails, a group reads records again that were copied after its commit."""
    source, target = Cluster({"a": "Stable"}), Cluster({}, end=50)
    source.commit("a", 80)
    sync = sync_of(source, target)

    async def job() -> None:
        for end, offset in ((50, 50), (70, 70), (90, 80)):
            target.end = end
            await sync.turn(MIRRORS)
            assert target.committed("a") == offset

    asyncio.run(job())


def test_a_group_with_members_in_the_target_is_left_as_it_is() -> None:
    """If this fails, a group that reads mirrors skips records or reads them again; or a report names it as carried."""
    source, target = Cluster({"a": "Stable", "b": "Stable"}), Cluster({"a": "Stable"})
    source.commit("a", 10)
    source.commit("b", 10)
    target.commit("a", 3)
    target.has_joined = True
    sync = sync_of(source, target)

    async def job() -> None:
        await sync.turn(MIRRORS)
        # Group b has got its first member after the look at the states.
        assert (target.committed("a"), target.committed("b"), sync.carried, sync.problems) == (3, None, {}, {})
        target.states["a"], target.has_joined = "Empty", False
        await sync.turn(MIRRORS)
        assert (target.committed("a"), target.committed("b"), sync.carried) == (10, 10, {"a": 1, "b": 1})

    asyncio.run(job())
