"""Consume, transform and produce exactly once, on real input, while processes are killed.

The input is a Debian package index of this machine (tests/support/corpus.py describes which, and fails if none exists).
A failure prints the seed and the command that repeats the kills after the same numbers of records: HISTORY_SEED=<seed>.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from broker_cy.launch.processes import Child, ProcessError
from tests.history.copier import partition_of, transformed
from tests.support.broker import Target
from tests.support.confluent import TIMEOUT_S, close_consumer, failures_to, new_consumer, take
from tests.support.corpus import Pair, head, paragraphs
from tests.support.topics import create_topic

MakeBroker = Callable[..., Target]
PARTITIONS = 3
SEED = int(os.environ.get("HISTORY_SEED", "1"))
ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {"log.segment.bytes": str(4 << 20)}
# The longest time without a commit before the copier is considered stuck.
STUCK_S = 30.0
# The time to wait for committed offsets that no transaction can still change, before the state of the copier is checked
# again.
STABLE_S = 2.0


class Copying:
    """A filled input topic, and the copier, which is started again whenever it has ended."""

    def __init__(self, broker: Target, client: str, name: str, pairs: list[Pair], seed: int) -> None:
        self.broker = broker
        self.client = client
        self.source, self.target, self.group = f"{name}-in", f"{name}-out", f"{name}-copier"
        self.seed = seed
        self.children: list[Child] = []
        # By partition; each value begins with its number, so that equal paragraphs differ.
        self.expected: list[list[Pair]] = [[] for _ in range(PARTITIONS)]
        create_topic(broker.bootstrap, self.source, PARTITIONS)
        create_topic(broker.bootstrap, self.target, PARTITIONS)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
        errors: list[KafkaError] = []
        for number, (key, paragraph) in enumerate(pairs):
            partition, value = partition_of(key, PARTITIONS), b"%d " % number + paragraph
            self.expected[partition].append((key, transformed(value)))
            while True:
                try:
                    producer.produce(
                        self.source,
                        value,
                        key,
                        partition=partition,
                        on_delivery=failures_to(errors),
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(TIMEOUT_S) == 0
        assert errors == []

    def start(self) -> None:
        number = len(self.children)
        argv = [sys.executable, "-m", "tests.history.copier", self.client, self.broker.bootstrap, self.source]
        argv += [self.target, self.group, str(PARTITIONS), f"{self.seed}{number:03}"]
        directory = self.broker.data_dir.parent / self.group
        self.children.append(Child(argv, directory, f"copier-{number}", cwd=ROOT))

    def copied(self) -> int:
        """The number of records that the copiers reported as committed; killed copiers may not have reported their last
        ones.
        """
        if self.children[-1].returncode is not None:
            self.start()
        lines = [line for child in self.children for line in child.stdout().splitlines()]
        return sum(int(line.split()[1]) for line in lines if len(line.split()) == 2)

    def wait_for(self, reached: Callable[[], bool], what: str) -> None:
        """Wait until `reached()` is true, as long as the copiers make progress."""
        last, since = -1, time.monotonic()
        while True:
            # Before `reached` is called: this starts the copier again, and only a copier ends the transaction its
            # predecessor left open.
            count = self.copied()
            if reached():
                return
            if count > last:
                last, since = count, time.monotonic()
            if time.monotonic() - since > STUCK_S:
                said = self.children[-1].stderr()[-3000:]
                raise AssertionError(f"the copier is stuck at {count} records before {what}; stderr: {said}")
            time.sleep(0.05)

    def done(self) -> bool:
        """Whether the offsets of all input are committed."""
        consumer = new_consumer(self.broker.bootstrap, self.group, isolation_level="read_committed")
        try:
            places = [TopicPartition(self.source, partition) for partition in range(PARTITIONS)]
            found = consumer.committed(places, STABLE_S)
            return [place.offset for place in found] == [len(each) for each in self.expected]
        except KafkaException as error:
            # A transaction is open, and may need a copier that has ended in the meantime.
            if error.args[0].code() != KafkaError._TIMED_OUT:
                raise
            return False
        finally:
            close_consumer(consumer)

    def check(self) -> None:
        """The output equals the input, record by record: one copier at a time copies a partition in order."""
        for partition, expected in enumerate(self.expected):
            consumer = new_consumer(self.broker.bootstrap, "reader", isolation_level="read_committed")
            consumer.assign([TopicPartition(self.target, partition, 0)])
            found = [(message.key(), message.value()) for message in take(consumer, len(expected), 2 * TIMEOUT_S)]
            more = consumer.consume(1, 1.0)
            close_consumer(consumer)
            wrong = next((at for at, pair in enumerate(found) if pair != expected[at]), None)
            if wrong is not None:
                near = [_number(value) for _, value in found[max(0, wrong - 2) : wrong + 5]]
                right = [_number(value) for _, value in expected[max(0, wrong - 2) : wrong + 5]]
                raise AssertionError(f"partition {partition}, record {wrong}: input {near} in place of {right}")
            assert more == [], f"partition {partition} has more than its {len(expected)} records"


def _number(value: bytes | None) -> str:
    """The number of the input record in a copied value."""
    return (value or b"? ?").split(b" ", 2)[1].decode()


def copy_all(
    broker: Target, client: str, pairs: list[Pair], *, copier_kills: int, broker_kills: int, seed: int, test: str
) -> None:
    choose = random.Random(seed)
    copying = Copying(broker, client, f"{client}-{seed}", pairs, seed)
    kills = ["copier"] * copier_kills + ["broker"] * broker_kills
    choose.shuffle(kills)
    part = len(pairs) // (len(kills) + 2)
    try:
        copying.start()
        for number, kill in enumerate(kills):
            least = part * number + choose.randint(1, part)
            copying.wait_for(lambda least=least: copying.copied() >= least, f"kill {number}")  # type: ignore[misc]
            if kill == "broker":
                broker.kill()
                broker.restart()
            else:
                copying.children[-1].kill()
        copying.wait_for(copying.done, "the end")
        copying.check()
        assert "traceback" not in broker.stderr()
    except (AssertionError, ProcessError) as error:
        again = (
            f"again with: HISTORY_SEED={seed} python -m pytest tests/history/test_copiers.py -k '{test} and {client}'"
        )
        raise AssertionError(f"seed {seed}: {error}\n{again}") from error
    finally:
        for child in copying.children:
            child.kill()
    assert len(copying.children) > copier_kills, "no copier was killed"


@pytest.mark.parametrize("client", ["confluent", "aiokafka"])
def test_exactly_once(make_broker: MakeBroker, client: str) -> None:
    """If this fails, a copy has records twice, not at all or in another order after the copier or broker is killed."""
    pairs = head(6000)
    copy_all(make_broker(SETTINGS), client, pairs, copier_kills=3, broker_kills=2, seed=SEED, test="test_exactly_once")


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("client", ["confluent", "aiokafka"])
def test_exactly_once_whole_index(make_broker: MakeBroker, client: str) -> None:
    """The same with the whole index, to reach rare interleavings."""
    pairs = head(max(len(paragraphs()), 20_000))
    copy_all(make_broker(SETTINGS), client, pairs, copier_kills=20, broker_kills=10, seed=SEED, test="whole_index")
