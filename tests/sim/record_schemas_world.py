"""Brokers that check the schemas of records, an author that registers and deletes them, and producers.

Invariants: a record whose schema was confirmed before it was sent, and is not deleted, is never refused for good; a
record whose schema its subject never had is never accepted, nor one whose schema was deleted before the broker last
read the topic to its end. A verdict takes at most two rounds. When the faults are over, each broker knows the versions
of the log.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from random import Random

from broker_cy.core.errors import ErrorCode
from broker_cy.record_schemas.checks import RecordSchemas, Strategy
from broker_cy.record_schemas.follower import PAUSE_S, ROUND_S, Follower
from broker_cy.record_schemas.known import SchemaName
from broker_cy.wire.records import Record, encode_batch
from broker_cy.wire.schema_header import MAGIC_GUID, id_header
from broker_cy.wire.schema_uses import schemas_of
from tests.sim.record_schemas_topic import Inline, Place, Reader, Version
from tests.sim.registry_cluster import SimulatedLoop

BROKERS, PRODUCERS, CHANGES, RECORDS = 2, 4, 40, 30
TOPICS, TEXTS = 3, 6
HEADER_BYTES = 61
# A verdict may take the rest of one round and the next one; reads end a little after the end of a round.
VERDICT_S = 2 * ROUND_S + 0.1


class Broker:
    def __init__(self, place: Place, loop: asyncio.AbstractEventLoop) -> None:
        self.reader = Reader(place)
        self.follower = Follower(self.reader, loop, Inline())
        self.follower.start()

    async def verdict(self, topic: str, strategy: Strategy, schema: SchemaName) -> ErrorCode:
        """Return the answer to a batch with one value, as connections.produce_append decides it."""
        check = RecordSchemas(topic, None, strategy, self.follower)
        header = id_header(schema) if isinstance(schema, int) else bytes([MAGIC_GUID]) + schema
        batch = encode_batch([Record(value=header + b"payload")])
        uses = schemas_of(batch[HEADER_BYTES:], 1, values=True)
        refusal, is_certain = check.judge(uses, 0)
        if refusal is None:
            return ErrorCode.NONE
        if not is_certain:
            is_current = await check.up_to_date()
            refusal, is_certain = check.judge(uses, 0)
            if refusal is None:
                return ErrorCode.NONE
            if not is_current:
                refusal = check.not_up_to_date(0)
        return refusal.code


class World:
    """See the module."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.counts: Counter[str] = Counter()
        self.place = Place(self.draw)
        # Confirmed and not deleted; changes to either are noted when they begin and when they are confirmed.
        self.live: dict[tuple[str, int], Version] = {}
        # (subject, schema) -> the loop's times from and to which the log has it; None: still.
        self.ever: dict[tuple[str, SchemaName], list[list[float]]] = {}
        self._ids: dict[str, int] = {}
        self._is_over = False

    def run(self) -> None:
        loop = SimulatedLoop()
        try:
            loop.run_until_complete(self._run(loop))
        finally:
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.close()

    async def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.place.create()
        self.brokers = [Broker(self.place, loop) for _ in range(BROKERS)]
        for broker in self.brokers:
            broker.reader.slowness = self.draw.choice((0.0, 0.1, 0.4))
        producers = [asyncio.create_task(self._produce()) for _ in range(PRODUCERS)]
        leaders = asyncio.create_task(self._lose_leaders())
        await self._author()
        await asyncio.gather(*producers)
        self._is_over = True
        await leaders
        await self._end()
        for broker in self.brokers:
            self.counts["failed reads"] += broker.reader.failed
            self.counts["slow reads"] += broker.reader.slow
            broker.follower.stop()

    # ---- the registry

    async def _author(self) -> None:
        for _ in range(CHANGES):
            await asyncio.sleep(self.draw.expovariate(3.0))
            kind = self.draw.random()
            if kind < 0.04:
                await self._recreate()
            elif kind < 0.25 and self.live:
                await self._delete()
            else:
                await self._register()

    async def _register(self) -> None:
        topic, text = self.draw.randrange(TOPICS), self.draw.randrange(TEXTS)
        subject = self.draw.choice((f"t{topic}-value", f"n{text}"))
        schema = json.dumps({"type": "record", "name": f"n{text}", "fields": []})
        number = max((each for name, each in self.live if name == subject), default=0) + 1
        number += self.draw.randrange(2)
        version = Version(subject, number, self._ids.setdefault(schema, len(self._ids) + 1), schema)
        if not await self._commit([version.record()], version):
            self.counts["aborted"] += 1
            return
        self.live[subject, number] = version
        self.counts["registered"] += 1

    async def _delete(self) -> None:
        place = self.draw.choice(sorted(self.live))
        version = self.live.pop(place)
        record = version.tombstone() if self.draw.random() < 0.5 else version.record(is_deleted=True)
        if await self._commit([record], None, gone=version):
            self.counts["deleted"] += 1
        else:
            self.live[place] = version

    async def _commit(self, records: list[Record], version: Version | None, gone: Version | None = None) -> bool:
        """Write in a transaction, which takes a while and may be aborted."""
        topic = self.place.topic
        assert topic is not None
        topic.begin(records)
        await asyncio.sleep(self.draw.expovariate(20.0))
        commits = self.draw.random() < 0.8
        topic.end_transaction(commits=commits)
        if not commits:
            return False
        if version is not None:
            for name in (version.id, version.guid):
                self.ever.setdefault((version.subject, name), []).append([self.loop.time(), float("inf")])
        if gone is not None:
            self._forget(gone)
        # The answer to the author arrives later.
        await asyncio.sleep(self.draw.random() * 0.003)
        return True

    def _forget(self, gone: Version) -> None:
        for name in (gone.id, gone.guid):
            if not any(each.subject == gone.subject and each.id == gone.id for each in self.live.values()):
                for span in self.ever.get((gone.subject, name), []):
                    span[1] = min(span[1], self.loop.time())

    async def _recreate(self) -> None:
        """Delete the topic; the registry begins again with other ids."""
        self.counts["recreated"] += 1
        gone, self.live = self.live, {}
        self.place.topic = None
        for version in gone.values():
            self._forget(version)
        self._ids = {f"skipped {each}": each for each in range(1, 4 + len(self._ids))}
        await asyncio.sleep(self.draw.random())
        topic = self.place.create()
        if self.draw.random() < 0.5:
            topic.log_start = self.draw.randrange(5)

    async def _lose_leaders(self) -> None:
        while not self._is_over:
            await asyncio.sleep(self.draw.expovariate(0.3))
            self.place.is_led = False
            await asyncio.sleep(self.draw.choice((0.05, 0.5, 6.0)))
            self.place.is_led = True
            self.counts["leaders lost"] += 1

    # ---- producers

    async def _produce(self) -> None:
        for _ in range(RECORDS):
            await asyncio.sleep(self.draw.expovariate(3.0))
            broker = self.draw.choice(self.brokers)
            topic = f"t{self.draw.randrange(TOPICS)}"
            strategy = self.draw.choice((Strategy.TOPIC_NAME, Strategy.RECORD_NAME))
            await self._send(broker, topic, strategy)

    async def _send(self, broker: Broker, topic: str, strategy: Strategy) -> None:
        before = {(each.subject, each.id): each for each in self.live.values()}
        versions = sorted(before.values())
        if versions and self.draw.random() < 0.8:
            chosen = self.draw.choice(versions[-4:])
            schema, text = chosen.id, chosen.text
            name: SchemaName = schema if self.draw.random() < 0.7 else chosen.guid
        else:
            schema, text = self.draw.randrange(1, 12), ""
            name = schema
        texts = {each.id: json.loads(each.text)["name"] for each in versions}
        by_record = texts.get(schema, "") if text == "" else json.loads(text)["name"]
        subject = f"{topic}-value" if strategy is Strategy.TOPIC_NAME else by_record
        began_s = self.loop.time()
        read_s = broker.reader.whole_s
        code = await broker.verdict(topic, strategy, name)
        took_s = self.loop.time() - began_s
        assert took_s <= VERDICT_S, f"a verdict took {took_s:g} s"
        self.counts[code.name] += 1
        is_there = any((each.subject, each.id) == (subject, schema) for each in self.live.values())
        if code is ErrorCode.INVALID_RECORD:
            was_there = (subject, schema) in before
            spans = self.ever.get((subject, name), [])
            kept = any(start <= began_s and end > self.loop.time() for start, end in spans)
            assert not (was_there and is_there and kept), f"{name!r} of {subject}, which is registered, was refused"
        elif code is ErrorCode.NONE:
            spans = self.ever.get((subject, name), []) if subject else [[0.0, float("inf")]]
            assert spans, f"{name!r} was accepted, though {subject} never had it"
            assert any(end >= read_s for _, end in spans), f"{name!r} of {subject} was accepted after its deletion"

    # ---- the end

    async def _end(self) -> None:
        self.place.is_led = True
        topic = self.place.topic
        assert topic is not None
        for broker in self.brokers:
            broker.reader.slowness = 0.0
        # The round that began among the faults, and one more.
        await asyncio.sleep(2 * ROUND_S + PAUSE_S)
        for broker in self.brokers:
            assert await broker.follower.up_to_date(), "the topic is readable, but a round did not reach its end"
            known = broker.follower.known
            expected = {(each.subject, each.id) for each in self.live.values()}
            subjects = {each for each, _ in expected} | {f"t{each}-value" for each in range(TOPICS)}
            found = {(subject, schema) for subject in subjects for schema in range(1, 80) if known.has(subject, schema)}
            assert found == expected, f"a broker knows {found - expected}, and lacks {expected - found}"
            assert known.versions == len(self.live)
            for each in self.live.values():
                assert known.has(each.subject, each.guid), f"the GUID of {each} is not known"
