"""Instances of the registry that write one topic, authors that register and delete at any of them, and crashes.

Invariants, on the committed records: an id has one text in its context for ever; a version has one schema; an answer is
in the log. At the end all instances have the state of the log.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from random import Random
from typing import Any

from broker_cy.core.randomness import Randomness
from broker_registry.checker import Checker
from broker_registry.errors import RegistryError
from broker_registry.operations.delete import delete_subject, delete_version
from broker_registry.operations.plan import Ids, Plan
from broker_registry.operations.register import RegisterSettings, register
from broker_registry.operations.wanted import LATEST, Wanted
from broker_registry.rights import FencingRight
from broker_registry.store.applied import Applied
from broker_registry.store.keys import Key, KeyType
from broker_registry.store.state import State
from broker_registry.store.values import SchemaContent, SchemaValue
from broker_registry.writer import Writer
from tests.sim.registry_cluster import Client, Cluster, Log, SimulatedLoop

INSTANCES, AUTHORS, ACTS = 3, 5, 14
SUBJECTS, TEXTS = 4, 12
TIMEOUT_S = 30.0


class Instance:
    """One process: state, reader and writer. `kill` ends it in the middle of whatever it does."""

    def __init__(self, cluster: Cluster) -> None:
        self.applied = Applied(State())
        self.log = Log(cluster, self.applied.take)
        client: Any = Client(cluster)
        log: Any = self.log
        right = FencingRight(client, "_schemas")
        self.writer = Writer(
            right, log, self.applied, Checker(), timeout_s=TIMEOUT_S, randomness=Randomness(cluster.draw)
        )
        self.writer.start()
        self._follower = asyncio.create_task(self.log.follow())
        self.calls: set[asyncio.Task[Any]] = set()

    async def call(self, operation: Any) -> Any:
        """Run an operation for a client. Raises RegistryError, or ConnectionError if the instance is killed."""
        task = asyncio.create_task(self.writer.run(operation))
        self.calls.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            raise ConnectionError("the instance was killed") from None
        finally:
            self.calls.discard(task)

    async def kill(self) -> None:
        for task in list(self.calls):
            task.cancel()
        self._follower.cancel()
        await self.writer.close()
        await asyncio.gather(self._follower, *self.calls, return_exceptions=True)


class World:
    """See the module."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.counts: Counter[str] = Counter()
        self._is_over = False
        # (subject, version) -> (id, text), as clients were told.
        self.told: dict[tuple[str, int], tuple[int, str]] = {}

    def run(self) -> None:
        loop = SimulatedLoop()
        try:
            loop.run_until_complete(self._run())
        finally:
            # After a failed check, clients and instances are in the middle of their work.
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.close()

    async def _run(self) -> None:
        self.cluster = Cluster(self.draw, losses=self.draw.choice((0.0, 0.02, 0.08)))
        self.instances = [Instance(self.cluster) for _ in range(INSTANCES)]
        authors = [asyncio.create_task(self._author()) for _ in range(AUTHORS)]
        killer = asyncio.create_task(self._kill())
        await asyncio.gather(*authors)
        self._is_over = True
        await killer
        self.cluster.losses = 0.0
        await self._end()
        self.counts["lost"] = self.cluster.lost

    async def _kill(self) -> None:
        while not self._is_over:
            await asyncio.sleep(self.draw.expovariate(1.0))
            victim = self.draw.randrange(INSTANCES)
            await self.instances[victim].kill()
            self.instances[victim] = Instance(self.cluster)
            self.counts["kills"] += 1

    async def _author(self) -> None:
        for _ in range(ACTS):
            await asyncio.sleep(self.draw.random() * 0.2)
            subject = f"s{self.draw.randrange(SUBJECTS)}"
            text = f'{{"type":"int","n":{self.draw.randrange(TEXTS)}}}'
            kind = self.draw.random()
            with contextlib.suppress(ConnectionError, RegistryError):
                if kind < 0.8:
                    await self._register(subject, text)
                else:
                    await self._delete(subject, is_whole=kind > 0.9)
            self.check()

    async def _register(self, subject: str, text: str) -> None:
        wanted = Wanted(subject, SchemaContent("AVRO", text))
        instance = self.instances[self.draw.randrange(INSTANCES)]
        found = await instance.call(lambda state, ids: register(state, ids, wanted, RegisterSettings()))
        value: SchemaValue = found.value
        self.told[(subject, value.version)] = (value.id, value.content.text)
        self.counts["registered" if found.is_new else "found"] += 1

    async def _delete(self, subject: str, *, is_whole: bool) -> None:
        def operation(state: State, ids: Ids) -> Plan[Any]:
            if is_whole:
                return delete_subject(state, subject, is_permanent=False)
            return delete_version(state, subject, LATEST, is_permanent=False)

        await self.instances[self.draw.randrange(INSTANCES)].call(operation)
        self.counts["deleted"] += 1

    # ------------------------------------------------------------------------------------------------ invariants

    def check(self) -> None:
        """Raise AssertionError if the committed records break an invariant."""
        texts: dict[int, str] = {}
        ids: dict[str, int] = {}
        versions: dict[tuple[str, int], tuple[int, str]] = {}
        for _, entry in self.cluster.committed(0, len(self.cluster.log)):
            key = Key.decode(entry.key or b"")
            if key.kind is not KeyType.SCHEMA or entry.value is None:
                continue
            value = SchemaValue.decode(key, entry.value)
            text, place = value.content.text, (value.subject, value.version)
            assert texts.setdefault(value.id, text) == text, (
                f"the id {value.id} is that of {texts[value.id]} and {text}"
            )
            assert ids.setdefault(text, value.id) == value.id, f"{text} has the ids {ids[text]} and {value.id}"
            found = versions.setdefault(place, (value.id, text))
            assert found == (value.id, text), f"version {place} was {found} and is {(value.id, text)}"
        for place, answer in self.told.items():
            assert versions.get(place) == answer, (
                f"a client was told {place} = {answer}; the log has {versions.get(place)}"
            )

    async def _end(self) -> None:
        self.check()
        expected = _described(self._replayed())
        for each in self.instances:
            await each.log.read_to(self.cluster.stable)
            assert _described(each.applied.state) == expected, "an instance has another state than the log"
            assert each.applied.state.problems_total == 0, each.applied.state.problems
            await each.kill()

    def _replayed(self) -> State:
        state = State()
        for _, entry in self.cluster.committed(0, len(self.cluster.log)):
            state.apply(entry.key, entry.value, 1)
        return state


def _described(state: State) -> list[tuple[str, int, int, str, bool]]:
    return [
        (value.subject, value.version, value.id, value.content.text, value.is_deleted) for value in state.all_values()
    ]
