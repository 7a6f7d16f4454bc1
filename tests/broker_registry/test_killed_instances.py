"""Instances that are killed while they write: no id twice, nothing that was confirmed is lost."""

from __future__ import annotations

import random
import threading
from pathlib import Path

from tests.broker_registry.operations.support import record_of
from tests.support.broker import BrokerProcess
from tests.support.registry import CALL_S, Registry, RegistryProcess, running_registry

INSTANCES = 3
KILLS = 4
SCHEMAS = 40


class Author(threading.Thread):
    """Registers schemas at any instance until each is confirmed."""

    def __init__(self, number: int, instances: list[RegistryProcess]) -> None:
        super().__init__()
        self.number, self.instances = number, instances
        self.confirmed: dict[str, tuple[str, int, int]] = {}
        self.over = threading.Event()

    def run(self) -> None:
        chosen = random.Random(self.number)
        for index in range(SCHEMAS):
            text = record_of("x:int", name=f"R{self.number}_{index}")
            while not self.over.is_set() and text not in self.confirmed:
                self._register(Registry(chosen.choice(self.instances).url), f"s{index}-{self.number}", text)

    def _register(self, registry: Registry, subject: str, text: str) -> None:
        try:
            reply = registry.register(subject, text)
        except OSError:
            return
        if reply.status == 200:
            self.confirmed[text] = (subject, reply.body["version"], reply.body["id"])


def test_killed_writers_lose_nothing(broker: BrokerProcess, topic: str, tmp_path: Path) -> None:
    """If this fails, a crash of an instance leaves an id with two meanings, or a confirmed schema is gone."""
    options = ["--topic", topic]
    instances = [RegistryProcess(broker.bootstrap, tmp_path, options, f"r{number}") for number in range(INSTANCES)]
    authors = [Author(number, instances) for number in range(4)]
    try:
        for each in instances:
            each.wait()
        for author in authors:
            author.start()
        for kill in range(KILLS):
            victim = kill % INSTANCES
            instances[victim].kill()
            instances[victim] = RegistryProcess(broker.bootstrap, tmp_path, options, f"again{kill}").wait()
            for author in authors:
                author.instances = instances
        for author in authors:
            author.join(CALL_S)
    finally:
        for author in authors:
            author.over.set()
            author.join(CALL_S)
        for each in instances:
            each.kill()
    confirmed = {text: place for author in authors for text, place in author.confirmed.items()}
    assert len(confirmed) == len(authors) * SCHEMAS
    ids = [schema_id for _, _, schema_id in confirmed.values()]
    assert len(set(ids)) == len(ids)
    with running_registry(broker.bootstrap, tmp_path / "last", options) as last:
        for text, (subject, version, schema_id) in confirmed.items():
            found = last.get(f"/subjects/{subject}/versions/{version}")
            assert (found["id"], found["schema"]) == (schema_id, text)
