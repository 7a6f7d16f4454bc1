"""Three instances that are killed while they write, and a broker that is killed and stopped for a while.

No id has two schemas, in the whole history of the topic. At the end, a new instance has everything that was confirmed,
with its id and text. The 1,000 kills with faults of the broker are ten parts of 100; each has its own draws and checks.
"""

from __future__ import annotations

import asyncio
import http.client
import random
import signal
import threading
from pathlib import Path

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.fetched import Chunk
from broker_registry.store.keys import Key, KeyType
from broker_registry.store.values import SchemaValue
from tests.broker_registry.operations.support import record_of
from tests.support.broker import QUICK, BrokerProcess
from tests.support.registry import CALL_S, Registry, RegistryProcess, Reply, running_registry
from tests.support.wait import until

INSTANCES, AUTHORS = 3, 5
# Schemas that several authors register, each under a subject of its own.
SHARED = 40
PROGRESS_S = 120.0
# Mean time between two kills, while schemas are registered.
KILL_S = 0.2
FAULT_S, STOPPED_S = 4.0, 1.0
READ_S = 120.0


class Author(threading.Thread):
    """Registers schemas and deletes some of them, at any instance. `confirmed` has the id and the text of versions that
    were confirmed, and not deleted.
    """

    def __init__(self, number: int, instances: list[RegistryProcess], part: int) -> None:
        super().__init__(name=f"author-{number}", daemon=True)
        self.number, self.instances = number, instances
        self.confirmed: dict[tuple[str, int], tuple[int, str]] = {}
        self.answers = self.deleted = 0
        # The ids of texts that are never deleted.
        self.ids: dict[str, set[int]] = {}
        self.problems: list[str] = []
        self.over = threading.Event()
        self._draw = random.Random(f"author {number} of {part}")

    def run(self) -> None:
        index = 0
        while not self.over.is_set():
            index += 1
            if self._draw.random() < 0.3:
                text = record_of("x:int", name=f"Shared{self._draw.randrange(SHARED)}")
            else:
                text = record_of("x:int", name=f"R{self.number}_{index}")
            subject = f"s{self.number}-{index}"
            reply = self._call("POST", f"/subjects/{subject}/versions", {"schema": text})
            if reply is None:
                continue
            place, schema_id = (subject, int(reply.body["version"])), int(reply.body["id"])
            if "Shared" in text:
                self.ids.setdefault(text, set()).add(schema_id)
            if "Shared" not in text and self._draw.random() < 0.3:
                self._remove(subject)
            else:
                self.confirmed[place] = schema_id, text

    def _remove(self, subject: str) -> None:
        """Delete a subject for good; whatever happens meanwhile, it is not read again."""
        for path in (f"/subjects/{subject}", f"/subjects/{subject}?permanent=true"):
            if self._call("DELETE", path, None) is None:
                return
        self.deleted += 1

    def _call(self, method: str, path: str, body: object) -> Reply | None:
        """Return a successful answer; None if it is not known what happened."""
        try:
            reply = Registry(self._draw.choice(self.instances).url).call(method, path, body)
        except (OSError, http.client.HTTPException):
            return None
        if reply.status == 200:
            self.answers += 1
            return reply
        # A change whose answer was lost may have been carried out before it is tried again.
        if reply.status < 500 and method == "POST":
            self.problems.append(f"{method} {path}: {reply}")
        return None


class Faults(threading.Thread):
    """Kills the broker and starts it again, or stops it for a while, until `end`. The thread lives until `close`: a
    process ends with the thread that started it.
    """

    def __init__(self, broker: BrokerProcess, part: int) -> None:
        super().__init__(name="faults", daemon=True)
        self._broker = broker
        self.count = 0
        self._over, self._is_quiet, self._closed = threading.Event(), threading.Event(), threading.Event()
        self._draw = random.Random(f"faults of {part}")

    def run(self) -> None:
        while not self._over.wait(self._draw.expovariate(1 / FAULT_S)):
            self.count += 1
            if self._draw.random() < 0.5:
                self._broker.kill()
                self._broker.restart()
            else:
                self._broker.child.send_signal(signal.SIGSTOP)
                self._over.wait(STOPPED_S)
                self._broker.child.send_signal(signal.SIGCONT)
        self._is_quiet.set()
        self._closed.wait()

    def end(self) -> None:
        """Wait until the broker runs."""
        self._over.set()
        assert not self.is_alive() or self._is_quiet.wait(PROGRESS_S)

    def close(self) -> None:
        self._over.set()
        self._closed.set()


class Rounds:
    """The instances, the authors, and the kills."""

    def __init__(self, broker: BrokerProcess, topic: str, directory: Path, part: int) -> None:
        self.broker, self.topic, self.directory = broker, topic, directory
        self.options = ["--topic", topic]
        self.instances = [self._instance(f"r{number}") for number in range(INSTANCES)]
        self.authors = [Author(number, self.instances, part) for number in range(AUTHORS)]
        self._draw = random.Random(f"kills of {part}")

    def _instance(self, name: str) -> RegistryProcess:
        return RegistryProcess(self.broker.bootstrap, self.directory, self.options, name)

    def wait(self) -> None:
        for each in self.instances:
            each.wait()

    def run(self, kills: int) -> None:
        try:
            for author in self.authors:
                author.start()
            for kill in range(kills):
                victim = self._draw.randrange(INSTANCES)
                self.instances[victim].kill()
                before = self._answers()
                self._start(victim, f"again{kill}")
                self._wait_for(before + 3)
                self.authors[0].over.wait(self._draw.expovariate(1 / KILL_S))
        finally:
            for author in self.authors:
                author.over.set()
            for author in self.authors:
                author.join(CALL_S)

    def _start(self, victim: int, name: str) -> None:
        def started() -> RegistryProcess | None:
            found = self._instance(name)
            try:
                return found.wait()
            except AssertionError:
                # An instance ends if the broker is down.
                found.kill()
                return None

        self.instances[victim] = until(started, "an instance that serves", PROGRESS_S)

    def _wait_for(self, answers: int) -> None:
        until(lambda: self._answers() >= answers, "answers after a kill", PROGRESS_S)

    def _answers(self) -> int:
        return sum(author.answers for author in self.authors)

    def end(self) -> None:
        for each in self.instances:
            each.kill()

    def check(self) -> None:
        """Compare what was confirmed with the topic, and with an instance that starts now."""
        assert [problem for author in self.authors for problem in author.problems] == []
        confirmed = {place: found for author in self.authors for place, found in author.confirmed.items()}
        history = asyncio.run(self._history())
        texts: dict[int, set[str]] = {}
        versions: dict[tuple[str, int], set[tuple[int, str]]] = {}
        for value in history:
            texts.setdefault(value.id, set()).add(value.content.text)
            versions.setdefault((value.subject, value.version), set()).add((value.id, value.content.text))
        assert {schema_id: found for schema_id, found in texts.items() if len(found) > 1} == {}
        assert {place: found for place, found in versions.items() if len(found) > 1} == {}
        shared: dict[str, set[int]] = {}
        for author in self.authors:
            for text, ids in author.ids.items():
                shared.setdefault(text, set()).update(ids)
        assert {text: ids for text, ids in shared.items() if len(ids) > 1} == {}
        with running_registry(self.broker.bootstrap, self.directory / "last", self.options) as last:
            for (subject, version), (schema_id, text) in confirmed.items():
                found = last.get(f"/subjects/{subject}/versions/{version}")
                assert (found["id"], found["schema"]) == (schema_id, text)

    async def _history(self) -> list[SchemaValue]:
        """Return the schemas of all committed records."""
        found: list[SchemaValue] = []

        def take(chunk: Chunk) -> None:
            for record in chunk.records:
                key = Key.decode(record.key or b"")
                if key.kind is KeyType.SCHEMA and record.value is not None:
                    found.append(SchemaValue.decode(key, record.value))

        async with (
            AdminClient(self.broker.bootstrap, timeout_s=READ_S) as client,
            client.topic_log(self.topic, take),
        ):
            return found


@pytest.mark.parametrize(
    ("kills", "has_faults", "part"),
    [
        pytest.param(4, False, 0, id="4"),
        pytest.param(40, True, 0, marks=[pytest.mark.full, pytest.mark.timeout(1_800)], id="40-with-faults"),
        *(
            pytest.param(
                100, True, part, marks=[pytest.mark.soak, pytest.mark.timeout(3_600)], id=f"100-with-faults-{part}"
            )
            for part in range(1, 11)
        ),
    ],
)
def test_killed_writers_lose_nothing(kills: int, has_faults: bool, part: int, tmp_path: Path) -> None:
    """If this fails, a crash of an instance leaves an id with two meanings, or a confirmed schema is gone."""
    broker = BrokerProcess(tmp_path / "broker", QUICK).start()
    faults = Faults(broker, part)
    rounds = Rounds(broker, "_schemas", tmp_path, part)
    try:
        rounds.wait()
        if has_faults:
            faults.start()
        try:
            rounds.run(kills)
        finally:
            faults.end()
        assert not has_faults or faults.count > 0
        rounds.check()
    finally:
        rounds.end()
        broker.close()
        faults.close()
