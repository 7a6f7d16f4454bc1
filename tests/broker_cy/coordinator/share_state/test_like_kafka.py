"""Our share coordinator and Kafka's ShareCoordinatorShard over the same requests at the same times: the same answers,
and the same records byte for byte. `make test` compares with Kafka's recorded answers.

Kafka leaves some equal neighbours among the batches apart, so batches are joined before they are compared.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker_cy.coordinator.share_state import records
from broker_cy.coordinator.share_state.answers import Outcome
from broker_cy.coordinator.share_state.batches import combine
from broker_cy.coordinator.share_state.state import SharePartitionKey, StateBatch
from broker_cy.coordinator.step import Record
from broker_cy.core.uuid import from_text, to_text
from broker_cy.metadata.topics import TopicImage
from tests.broker_cy.coordinator.share_state.share_state_harness import ShareStateHarness
from tests.support import kafka_tools, needs, recorded

RUNS, STEPS, UNIONS = 16, 120, 800
START_MS = 1_700_000_000_000
TOPICS = [UUID(int=0x1111 + number) for number in range(3)]
COLD_MS = 300_000


# ---- what is asked ----


def batches_text(batches: list[tuple[int, int, int, int]]) -> str:
    return ";".join(",".join(map(str, batch)) for batch in batches) or "-"


def drawn(rng: random.Random, count: int, span: int) -> str:
    found = []
    for _ in range(count):
        first = rng.randrange(span)
        found.append((first, first + rng.randrange(8), rng.randrange(1, 5), rng.choice([0, 0, 2, 4])))
    return batches_text(found)


def unions() -> Iterator[str]:
    """Commands that combine batches: those of a state, which do not overlap, with new ones."""
    for seed in range(UNIONS):
        rng = random.Random(seed)
        known = combine((), parsed(drawn(rng, rng.randrange(8), 30)))
        new = drawn(rng, rng.randrange(6), 30)
        yield f"combine {rng.choice([-1, rng.randrange(30)])} {batches_text(list(known))} {new}"


def requests(seed: int) -> Iterator[str]:
    """The commands of one life of a coordinator."""
    rng = random.Random(seed)
    yield f"new {rng.choice([0, 1, 3, 10])}"
    now_ms = START_MS
    yield f"time {now_ms}"
    for topic_id in TOPICS[:2]:
        yield f"topic {to_text(topic_id)} 2"
    start = 0
    for topic_id in TOPICS[:2]:
        yield f"initialize g0 {to_text(topic_id)} 0 0 -1"
    for step in range(STEPS):
        # The third topic does not exist, nor does the partition 2.
        partition = rng.choice([-1, 2]) if rng.random() < 0.05 else rng.randrange(2)
        where = f"g{rng.randrange(2)} {to_text(rng.choice([*TOPICS, *TOPICS[:2] * 10]))} {partition}"
        epoch = -1 if rng.random() < 0.3 else step // 25 + rng.choice([-1, 0, 0, 0, 0, 1])
        draw = rng.random()
        if draw < 0.15:
            yield f"initialize {where} {epoch} {rng.choice([-1, rng.randrange(40)])}"
        elif draw < 0.6:
            start += rng.randrange(3)
            new_start = rng.choice([-1, start, rng.randrange(40)])
            new = drawn(rng, rng.randrange(4), 40)
            yield f"write {where} {epoch} {rng.choice([-1, step // 20])} {new_start} {rng.randrange(-1, 5)} {new}"
        elif draw < 0.75:
            yield f"read {where} {epoch}"
        elif draw < 0.83:
            yield f"summary {where}"
        elif draw < 0.87:
            yield f"delete {where}"
        elif draw < 0.93:
            now_ms += rng.choice([1, 1_000, COLD_MS // 2, COLD_MS])
            yield f"time {now_ms}"
        elif draw < 0.96:
            yield "cold"
        elif draw < 0.998:
            yield "redundant"
        else:
            yield f"gone {to_text(rng.choice(TOPICS))}"
    yield "redundant"


def script() -> list[str]:
    return [*unions(), *(line for seed in range(RUNS) for line in requests(seed))]


# ---- our side ----


def parsed(text: str) -> list[StateBatch]:
    if text == "-":
        return []
    return [StateBatch(*map(int, each.split(","))) for each in text.split(";")]


class Ours:
    """The commands of KafkaShareState.java, on our machine."""

    def __init__(self) -> None:
        self.harness = ShareStateHarness()

    def run(self, line: str) -> str:
        word, *rest = line.split(" ")
        before = len(self.harness.log)
        commands: dict[str, Callable[..., str]] = {
            "new": self._renew,
            "time": self._time,
            "topic": self._topic,
            "initialize": self._initialize,
            "write": self._write,
            "read": self._read,
            "summary": self._summary,
            "delete": self._delete,
            "cold": self._cold,
            "gone": self._gone,
            "redundant": lambda: str(self.harness.redundant_offset() or "none"),
            "combine": lambda start, known, new: _text(combine(tuple(parsed(known)), parsed(new), int(start))),
        }
        answer = commands[word](*rest)
        if word == "new":
            return answer
        return answer + "".join(f" {_shown(record)}" for record in self.harness.log[before:])

    def _renew(self, updates: str) -> str:
        self.harness = ShareStateHarness(updates_per_snapshot=int(updates), cold_snapshot_interval_ms=COLD_MS)
        for topic in list(self.harness.image.topics):
            self.harness.image.topics.remove(topic.topic_id)
        return ""

    def _time(self, now_ms: str) -> str:
        self.harness.wall_ms = int(now_ms)
        return ""

    def _topic(self, topic_id: str, count: str) -> str:
        partitions: Any = dict.fromkeys(range(int(count)))
        self.harness.image.topics.put(TopicImage(topic_id, from_text(topic_id), partitions))
        return ""

    def _initialize(self, group: str, topic_id: str, partition: str, state_epoch: str, start_offset: str) -> str:
        key = _key(group, topic_id, partition)
        return _outcome(self.harness.initialize(key, int(state_epoch), int(start_offset)))

    def _write(self, group: str, topic_id: str, partition: str, *rest: str) -> str:
        leader_epoch, state_epoch, start_offset, complete = map(int, rest[:4])
        answer = self.harness.write(
            *parsed(rest[4]),
            of=_key(group, topic_id, partition),
            leader_epoch=leader_epoch,
            state_epoch=state_epoch,
            start_offset=start_offset,
            complete=complete,
        )
        return _outcome(answer)

    def _read(self, group: str, topic_id: str, partition: str, leader_epoch: str) -> str:
        answer = self.harness.read(_key(group, topic_id, partition), int(leader_epoch))
        return (
            f"{answer.code.value}|{_message(answer.message)}|{answer.state_epoch}|{answer.start_offset}"
            f"|{_text(answer.batches)}"
        )

    def _summary(self, group: str, topic_id: str, partition: str) -> str:
        answer = self.harness.summary(_key(group, topic_id, partition))
        return (
            f"{answer.code.value}|{_message(answer.message)}|{answer.state_epoch}|{answer.leader_epoch}"
            f"|{answer.start_offset}|{answer.delivery_complete_count}"
        )

    def _delete(self, group: str, topic_id: str, partition: str) -> str:
        return _outcome(self.harness.delete(_key(group, topic_id, partition)))

    def _sort(self) -> None:
        """Kafka's order is that of a hash table; the Java side sorts the records."""
        machine = self.harness.machine
        machine.entries = dict(sorted(machine.entries.items(), key=lambda entry: records.tombstone(entry[0]).key))

    def _cold(self) -> str:
        self._sort()
        self.harness.snapshot_cold()
        self.harness.advance(0)
        return ""

    def _gone(self, topic_id: str) -> str:
        self._sort()
        if self.harness.image.topics.by_id(from_text(topic_id)) is not None:
            self.harness.delete_topics([from_text(topic_id)])
        return ""


def _key(group: str, topic_id: str, partition: str) -> SharePartitionKey:
    return SharePartitionKey(group, from_text(topic_id), int(partition))


def _message(message: str | None) -> str:
    return "null" if message is None else message


def _outcome(answer: Outcome) -> str:
    return f"{answer.code.value}|{_message(answer.message)}"


def _text(batches: tuple[StateBatch, ...]) -> str:
    return batches_text([tuple(batch) for batch in batches])  # type: ignore[misc]


def _shown(record: Record) -> str:
    return f"{record.key.hex()}:{'-' if record.value is None else record.value.hex()}"


# ---- comparison ----


def joined(line: str, answer: str) -> list[str]:
    """Kafka's answer in parts, with its batches joined."""
    word = line.split(" ")[0]
    if word == "combine":
        return [_text(combine((), parsed(answer)))]
    head, *found = answer.split(" ") if word in ("cold", "gone") else _split(answer)
    if word == "read":
        *parts, batches = head.split("|")
        head = "|".join([*parts, _text(combine((), parsed(batches)))])
    return [head, *(_joined_record(each) for each in found)]


def _split(answer: str) -> list[str]:
    """The answer, whose message has spaces, and the records behind it."""
    words = answer.split(" ")
    count = sum(1 for word in words if ":" in word and set(word) <= set("0123456789abcdef:-"))
    return [" ".join(words[: len(words) - count]), *words[len(words) - count :]]


def _joined_record(shown: str) -> str:
    key, value = (None if part == "-" else bytes.fromhex(part) for part in shown.split(":"))
    assert key is not None
    if value is None:
        return shown
    place = records.share_partition(key)
    if records.key_type(key) is records.KeyType.SHARE_SNAPSHOT:
        return _shown(records.snapshot(place, records.decode_snapshot(value)))
    return _shown(records.update(place, records.decode_update(value)))


def kafkas() -> list[str]:
    source = Path(__file__).with_name("KafkaShareState.java")
    found = kafka_tools.run_program(source, stdin="".join(f"{line}\n" for line in script()).encode(), timeout_s=240)
    return [line for line in found.stdout.decode().splitlines() if not line.startswith("[")]


def test_the_answers_and_records_are_kafkas() -> None:
    """If this fails, a share group sees another state than under Kafka, or Kafka reads our log differently."""
    lines = script()
    answers = recorded.of_kafka("share_state")
    assert len(answers) == len(lines)
    ours = Ours()
    with_records = 0
    for line, answer in zip(lines, answers, strict=True):
        wanted = joined(line, answer)
        assert joined(line, ours.run(line)) == wanted, line
        with_records += len(wanted) > 1
    assert with_records > RUNS * STEPS // 4, "almost all requests were refused"


@pytest.mark.full
@needs.java
def test_the_recorded_answers_are_current() -> None:
    """If this fails, the test above compares with answers that Kafka does not give."""
    recorded.check("share_state", kafkas())
