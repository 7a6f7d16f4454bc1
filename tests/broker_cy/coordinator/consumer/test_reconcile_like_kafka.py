"""Our reconciliation of a consumer group's member and Kafka's, from the same members: the same next states."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import pytest

from broker_cy.coordinator.consumer.member import AssignedEpochs, ConsumerMember
from broker_cy.coordinator.consumer.reconcile import NO_GAINS, Wanted, reconciled_in_pages
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.core.errors import KafkaError
from tests.support import kafka_tools, needs, recorded

NAME = "reconciliation"
TIMEOUT_S = 240.0
CASES = 3_000
TOPICS, PARTITIONS, EPOCH = ("1", "2", "3"), 4, 9

Numbers = Mapping[str, Mapping[int, int]]  # topic -> partition -> epoch
V = TypeVar("V")


class Read(frozenset[UUID]):
    """The ids of the topics that a member reads."""

    def part_of(self, held: Mapping[UUID, V]) -> Mapping[UUID, V]:
        return {topic_id: value for topic_id, value in held.items() if topic_id in self}


@needs.java
@pytest.mark.full
def test_recorded_states_are_those_of_kafka() -> None:
    """If this fails, the states that `make test` compares with are not Kafka's."""
    source = Path(__file__).with_name("KafkaReconciliation.java")
    done = kafka_tools.run_program(source, stdin=("\n".join(cases()) + "\n").encode(), timeout_s=TIMEOUT_S)
    recorded.check(NAME, done.stdout.decode().splitlines())


def test_same_states() -> None:
    """If this fails, a member loses partitions that Kafka would leave to it, or gets one that another member holds."""
    states = set()
    for case, expected in zip(cases(), recorded.of_kafka(NAME), strict=True):
        found = ours(case)
        assert found == expected, f"{case}: {found}, Kafka {expected}"
        states.add(found.split(" ")[0])
    assert len(states) == 4, states


def cases() -> list[str]:
    draw = random.Random("reconciliation")
    return [" ".join(case(draw)) for _ in range(CASES)]


def case(draw: random.Random) -> Iterator[str]:
    """Yield the words of a case: see KafkaReconciliation.java. Most members are ones that a group can have."""
    state = draw.choice(["STABLE", "UNREVOKED_PARTITIONS", "UNRELEASED_PARTITIONS", "UNKNOWN"])
    assigned, revoking, target, others = ({topic: dict[int, int]() for topic in TOPICS} for _ in range(4))
    for topic in TOPICS:
        for number in range(PARTITIONS):
            place = draw.choice([assigned, assigned, revoking, others, {}])
            if topic in place and (place is not revoking or state == "UNREVOKED_PARTITIONS"):
                place[topic][number] = draw.randint(1, EPOCH)
            if draw.random() < 0.5 or (topic in place and place is assigned and draw.random() < 0.5):
                target[topic][number] = 0
    yield state
    yield str(EPOCH)
    yield str(draw.choice([EPOCH, EPOCH - 1]))
    yield text(assigned)
    yield text(revoking)
    yield str(EPOCH + draw.randint(0, 2))
    yield text(target, with_epochs=False)
    # An empty subscription of a member without partitions is left out: Kafka may note the epoch again.
    topics = draw.sample(TOPICS, draw.choice([0, 1, 2, 3, 3, 3]))
    yield ",".join(sorted(topics)) or ("-" if any(assigned.values()) else "1")
    yield text({topic: {**assigned[topic], **revoking[topic], **others[topic]} for topic in TOPICS}, with_epochs=False)
    yield draw.choice(["?", "-", text(assigned, False), text(revoking, False), text(some_of(draw, assigned), False)])
    yield draw.choice(["changed", "same"])


def some_of(draw: random.Random, held: Numbers) -> Numbers:
    return {
        topic: {number: epoch for number, epoch in each.items() if draw.random() < 0.5} for topic, each in held.items()
    }


def ours(line: str) -> str:
    """The answer to a case."""
    state, epoch, previous, assigned, revoking, target_epoch, target, topics, held, owned, changed = line.split(" ")
    member = ConsumerMember(
        "m",
        epoch=int(epoch),
        previous_epoch=int(previous),
        state=MemberState[state],
        assigned=parsed(assigned),
        revoking=parsed(revoking),
    )
    anyones = parsed(held)
    wanted = Wanted(
        int(target_epoch),
        {topic_id: frozenset(numbers) for topic_id, numbers in parsed(target).items()},
        Read(map(topic_id_of, filter("-".__ne__, topics.split(",")))),
        anyones,
    )
    reported = None if owned == "?" else parsed(owned)
    try:
        page = reconciled_in_pages(member, wanted, reported, NO_GAINS, is_subscription_changed=changed == "changed")
    except KafkaError:
        return "fenced"
    assert not page.left
    found = page.member
    epochs = f"{found.epoch} {found.previous_epoch}"
    return f"{found.state.name} {epochs} {text(by_name(found.assigned))} {text(by_name(found.revoking))}"


def topic_id_of(topic: str) -> UUID:
    return UUID(int=int(topic) << 64)


def by_name(held: AssignedEpochs) -> Numbers:
    return {str(topic_id.int >> 64): numbers for topic_id, numbers in held.items()}


def parsed(text_: str) -> AssignedEpochs:
    found: dict[UUID, dict[int, int]] = {}
    for part in [] if text_ == "-" else text_.split(";"):
        topic, numbers = part.split(":")
        pairs = [number.split("@") for number in numbers.split(",")]
        found[topic_id_of(topic)] = {int(pair[0]): int(pair[-1]) for pair in pairs}
    return found


def text(held: Numbers, with_epochs: bool = True) -> str:
    parts = []
    for topic in sorted(held):
        pairs = [f"{number}@{epoch}" if with_epochs else str(number) for number, epoch in sorted(held[topic].items())]
        if pairs:
            parts.append(f"{topic}:{','.join(pairs)}")
    return ";".join(parts) or "-"
