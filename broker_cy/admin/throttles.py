"""Limits on the bytes that moving replicas copy (KIP-73): a rate of each broker, and the replicas that it applies to.

Moves between the directories of a broker have a rate of their own (KIP-113), for all of them.

A limit is set for one plan and removed after it. Earlier settings stay: the broker's earlier rate is restored, and only
the plan's replicas are removed from a topic's list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker_cy.admin.caller import Outcome
from broker_cy.admin.configs import AlterOp, ConfigCalls, ConfigChange, ConfigResource, ResourceType
from broker_cy.admin.placement import Move
from broker_cy.core.classes import dataclass
from broker_cy.core.configs import ConfigSource

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
DIRECTORY_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
_EVERY = "*"


@dataclass(frozen=True, slots=True)
class Throttle:
    """The current limits: bytes per second of brokers by setting, and the replicas that each topic lists."""

    rates: Mapping[int, Mapping[str, int]]
    replicas: Mapping[str, Mapping[str, str]]

    @property
    def is_set(self) -> bool:
        return bool(self.rates or self.replicas)


@dataclass(frozen=True, slots=True)
class SetThrottle:
    """The changes that a throttle consists of, and those that end it."""

    start: Mapping[ConfigResource, tuple[ConfigChange, ...]]
    end: Mapping[ConfigResource, tuple[ConfigChange, ...]]


class ThrottleCalls:
    """`client.throttles`."""

    def __init__(self, configs: ConfigCalls) -> None:
        self._configs = configs

    async def describe(self, brokers: Iterable[int], topics: Iterable[str]) -> Throttle:
        """The limits of these brokers and topics. Raises ClientError."""
        resources = [ConfigResource(ResourceType.BROKER, str(each)) for each in brokers]
        resources += [ConfigResource(ResourceType.TOPIC, name) for name in topics]
        found = (await self._configs.describe(resources, names=(*RATES, LEADERS, FOLLOWERS))).whole()
        rates: dict[int, dict[str, int]] = {}
        replicas: dict[str, dict[str, str]] = {}
        for resource, entries in found.items():
            for entry in entries:
                if resource.kind is ResourceType.BROKER and entry.source is ConfigSource.DYNAMIC_BROKER_CONFIG:
                    if entry.name in RATES and entry.value is not None:
                        rates.setdefault(int(resource.name), {})[entry.name] = int(entry.value)
                elif resource.kind is ResourceType.TOPIC and entry.value:
                    replicas.setdefault(resource.name, {})[entry.name] = entry.value
        return Throttle(rates, replicas)

    def plan(self, moves: Iterable[Move], brokers: Iterable[int], bytes_per_s: int, now: Throttle) -> SetThrottle:
        """The changes that limit `moves` on each of `brokers` to `bytes_per_s`; `now` has the current limits."""
        start: dict[ConfigResource, tuple[ConfigChange, ...]] = {}
        end: dict[ConfigResource, tuple[ConfigChange, ...]] = {}
        for broker in brokers:
            resource = ConfigResource(ResourceType.BROKER, str(broker))
            earlier = now.rates.get(broker, {})
            start[resource] = tuple(ConfigChange(name, AlterOp.SET, str(bytes_per_s)) for name in RATES)
            end[resource] = tuple(
                ConfigChange(name, AlterOp.SET, str(earlier[name])) if name in earlier
                else ConfigChange(name, AlterOp.DELETE)
                for name in RATES
            )  # fmt: skip
        lists: dict[tuple[str, str], list[str]] = {}
        for move in moves:
            topic, number = move.partition
            if move.added:
                lists.setdefault((topic, LEADERS), []).extend(f"{number}:{each}" for each in move.before)
                lists.setdefault((topic, FOLLOWERS), []).extend(f"{number}:{each}" for each in move.added)
        for (topic, name), values in lists.items():
            listed = now.replicas.get(topic, {}).get(name, "").split(",")
            mine = [] if _EVERY in listed else [each for each in values if each not in listed]
            if not mine:
                continue
            resource = ConfigResource(ResourceType.TOPIC, topic)
            text = ",".join(mine)
            start[resource] = (*start.get(resource, ()), ConfigChange(name, AlterOp.APPEND, text))
            end[resource] = (*end.get(resource, ()), ConfigChange(name, AlterOp.SUBTRACT, text))
        return SetThrottle(start, end)

    async def directory_rates(self, brokers: Iterable[int]) -> dict[int, int]:
        """The limits that clients have set for moves between directories, by broker. Raises ClientError."""
        resources = [ConfigResource(ResourceType.BROKER, str(each)) for each in brokers]
        found = (await self._configs.describe(resources, names=[DIRECTORY_RATE])).whole() if resources else {}
        return {
            int(resource.name): int(entry.value)
            for resource, entries in found.items()
            for entry in entries
            if entry.name == DIRECTORY_RATE
            and entry.source is ConfigSource.DYNAMIC_BROKER_CONFIG
            and entry.value is not None
        }

    def plan_directories(self, brokers: Iterable[int], bytes_per_s: int, now: Mapping[int, int]) -> SetThrottle:
        """The changes that limit moves between the directories of each of `brokers` to `bytes_per_s`; `now` has the
        current limits.
        """
        start: dict[ConfigResource, tuple[ConfigChange, ...]] = {}
        end: dict[ConfigResource, tuple[ConfigChange, ...]] = {}
        for broker in brokers:
            resource = ConfigResource(ResourceType.BROKER, str(broker))
            start[resource] = (ConfigChange(DIRECTORY_RATE, AlterOp.SET, str(bytes_per_s)),)
            end[resource] = (
                ConfigChange(DIRECTORY_RATE, AlterOp.SET, str(now[broker]))
                if broker in now
                else ConfigChange(DIRECTORY_RATE, AlterOp.DELETE),
            )
        return SetThrottle(start, end)

    async def remove_directory_rates(self, brokers: Iterable[int]) -> Outcome[ConfigResource, bool]:
        """Remove the limits of moves between the directories of these brokers, also those of other clients."""
        change = ConfigChange(DIRECTORY_RATE, AlterOp.DELETE)
        return await self._configs.alter({ConfigResource(ResourceType.BROKER, str(each)): [change] for each in brokers})

    async def alter(self, changes: Mapping[ConfigResource, Iterable[ConfigChange]]) -> Outcome[ConfigResource, bool]:
        """Make the changes of one side of a plan."""
        return await self._configs.alter(changes)

    async def remove_all(self, now: Throttle) -> Outcome[ConfigResource, bool]:
        """Remove every limit of `now`, also those of other clients."""
        changes = {
            ConfigResource(ResourceType.BROKER, str(broker)): [ConfigChange(name, AlterOp.DELETE) for name in names]
            for broker, names in now.rates.items()
        }
        for topic, names in now.replicas.items():
            changes[ConfigResource(ResourceType.TOPIC, topic)] = [ConfigChange(name, AlterOp.DELETE) for name in names]
        return await self._configs.alter(changes)
