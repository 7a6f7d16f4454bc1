"""A run: the rounds of a plan, against a broker that is killed during and after them; after each round, everything is
read.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.blackbox.acts import Act, Plan, Produce, Round, Transact
from tests.blackbox.clients import TIMEOUT_S
from tests.blackbox.model import Reading, check, restarted, settle, stopped
from tests.blackbox.reading import TAKE, names, read, wait_for_ends
from tests.blackbox.world import Lane, World
from tests.support.broker import Target
from tests.support.wait import until

# Compaction, the removal of files and the start of the broker do not wait.
SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.cleaner.backoff.ms": "50",
    "log.segment.delete.delay.ms": "100",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "3",
}


class Run:
    """`again` is the command that repeats it; a failure shows the command, and the acts on the topic."""

    def __init__(self, broker: Target, seed: int, again: str) -> None:
        self.world = World(broker)
        self.plan = Plan(seed)
        self.seed = seed
        self.again = again
        self.rounds = 0
        self.kills = 0
        self.read = 0

    def go_on(self, over: Callable[[], bool]) -> None:
        """Run rounds until `over()`. AssertionError names the loss and the command that repeats the run."""
        while not over():
            try:
                self.round(self.plan.round())
            except AssertionError as error:
                self.keep()
                raise AssertionError(
                    f"seed {self.seed}, round {self.rounds}: {error}\nagain with: {self.again}"
                ) from error
            self.rounds += 1

    def keep(self) -> None:
        """With BLACKBOX_KEEP=<directory>, keep the files of the broker as a kill at this moment leaves them."""
        if "BLACKBOX_KEEP" in os.environ:
            self.world.broker.kill()
            target = Path(os.environ["BLACKBOX_KEEP"]) / f"seed-{self.seed}"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(self.world.broker.data_dir.parent, target)
            (target / "acts.json").write_text(json.dumps(self.world.acts, indent=1))

    def round(self, turn: Round) -> None:
        world, broker = self.world, self.world.broker
        lanes = [Lane(world, number, self.rounds, todo) for number, todo in enumerate(turn.lanes)]
        before = world.acked
        for lane in lanes:
            lane.start()
        if turn.kill_at is not None:
            wanted = before + turn.kill_at * sum(_records(act) for todo in turn.lanes for act in todo)
            until(
                lambda: world.acked >= wanted or not any(lane.is_alive() for lane in lanes),
                f"{wanted:g} acknowledged records",
                2 * TIMEOUT_S,
                interval_s=0.001,
            )
            self.kills += 1
            broker.kill()
            broker.restart()
        for lane in lanes:
            lane.join(4 * TIMEOUT_S)
            assert not lane.is_alive(), f"{lane.name} hangs in {lane.todo}"
            if lane.failure is not None:
                raise AssertionError(f"{lane.name}: {lane.failure!r} in {lane.todo}") from lane.failure
        if turn.stop:
            if turn.kill_at is None:
                for topic in world.topics.values():
                    stopped(topic)
            code = broker.stop()
            assert code == 0, f"the broker ended with {code}"
        else:
            self.kills += 1
            broker.kill()
        broker.restart()
        self.verify(turn)
        assert "traceback" not in broker.stderr().lower(), f"the broker failed: {broker.stderr()[-2000:]}"

    def verify(self, turn: Round) -> None:
        world, bootstrap = self.world, self.world.broker.bootstrap
        there = names(bootstrap)
        expected = {name: len(topic.partitions) for name, topic in world.topics.items()}
        assert there == expected, f"topics {there}, expected {expected}"
        for name, topic in world.topics.items():
            if topic.transactions:
                wait_for_ends(bootstrap, name, len(topic.partitions))
        found = [read(bootstrap, expected, committed=committed) for committed in (False, True)]
        for at, (name, topic) in enumerate(sorted(world.topics.items())):
            readings = [(number, reading) for each in found for number, reading in enumerate(each[name])]
            wrong = settle(topic, readings)
            for number, reading in readings:
                self.read += len(reading.records)
                wrong += [f"{name}-{number}: {each}" for each in check(topic, number, reading)]
            restarted(topic, readings)
            # Other clients stop or wait forever at batches that compaction left without records, and at markers.
            plain = not topic.compacted and not topic.transactions
            if not wrong and plain and at % 2 == self.rounds % 2:
                wrong = self.read_again(name, readings, turn.reader)
            if wrong:
                shown = "\n  ".join([*wrong[:20], "after", *world.acts[name][-40:]])
                raise AssertionError(f"{len(wrong)} findings in {name}:\n  {shown}")

    def read_again(self, name: str, readings: list[tuple[int, Reading]], client: str) -> list[str]:
        """Compare the model with what another client reads."""
        wrong = []
        for number, reading in readings:
            if not reading.committed and reading.records:
                place = name, number, reading.start, len(reading.records)
                if TAKE[client](self.world.broker.bootstrap, *place) != list(reading.records):
                    wrong.append(f"{client} got something else from {name}-{number} than confluent-kafka")
        return wrong


def _records(act: Act) -> int:
    """Return how many records an act sends."""
    match act:
        case Produce():
            return act.count
        case Transact():
            return sum(count for count, _ in act.ends)
        case _:
            return 0
