"""Our assignors and those of Kafka 4.3.1, from the same groups: equal assignments, member by member."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_cy.coordinator.assignors import streams_sticky, task_holders
from broker_cy.coordinator.assignors.task_holders import Holder, Member, Task
from tests.broker_cy.coordinator.assignors import stories
from tests.support import kafka_tools, needs, recorded

NAME = "assignors"
TIMEOUT_S = 240.0
STORIES: dict[str, tuple[Callable[[random.Random], Iterator[str]], int]] = {
    "consumer": (stories.consumer_story, 120),
    "share": (stories.share_story, 80),
    "streams": (stories.streams_story, 120),
}


def commands(kind: str) -> list[str]:
    story, count = STORIES[kind]
    return [line for seed in range(count) for line in story(random.Random(f"{kind} {seed}"))]


@needs.java
@pytest.mark.full
def test_recorded_assignments_are_those_of_kafka() -> None:
    """If this fails, the assignments that `make test` compares with are not Kafka's."""
    source = Path(__file__).with_name("KafkaAssignors.java")
    lines = [line for kind in STORIES for line in commands(kind)]
    done = kafka_tools.run_program(source, stdin=("\n".join(lines) + "\n").encode(), timeout_s=TIMEOUT_S)
    recorded.check(NAME, done.stdout.decode().splitlines())


@pytest.mark.parametrize("kind", STORIES)
def test_same_assignments(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a rolling change between Kafka and this broker moves partitions that Kafka would leave alone."""
    if kind == "streams":
        monkeypatch.setattr(task_holders, "LeastLoaded", JavaQueue)
        monkeypatch.setattr(streams_sticky, "LeastLoaded", JavaQueue)
        monkeypatch.setattr(streams_sticky, "least_loaded_holder", first_process_only)
    theirs = iter(answers_of(kind))
    ours = stories.Ours()
    lines = commands(kind)
    for number, line in enumerate(lines):
        answer = ours.run(line)
        if answer is not None:
            expected = next(theirs)
            first = max(index for index in range(number) if lines[index] == "new")
            assert answer.split(" ") == expected.split(" "), "\n".join(lines[first : number + 1])


def answers_of(kind: str) -> list[str]:
    """The part of the recording that belongs to these stories."""
    first = 0
    for each in STORIES:
        asked = sum(line.split(" ")[0] in stories.ASKING for line in commands(each))
        if each == kind:
            answers: list[str] = recorded.of_kafka(NAME)[first : first + asked]
            return answers
        first += asked
    raise KeyError(kind)


class JavaQueue:
    """Java's PriorityQueue of holders by load, which orders equal loads by its steps. Ours orders them by index."""

    def __init__(self, holders: list[Holder]) -> None:
        self._queue: list[Holder] = []
        for holder in holders:
            self.push(holder)

    def __len__(self) -> int:
        return len(self._queue)

    def push(self, holder: Holder) -> None:
        queue = self._queue
        queue.append(holder)
        place = len(queue) - 1
        while place and holder.load < queue[(place - 1) // 2].load:
            queue[place] = queue[(place - 1) // 2]
            place = (place - 1) // 2
        queue[place] = holder

    def pop(self) -> Holder:
        queue = self._queue
        least, last = queue[0], queue.pop()
        if not queue:
            return least
        place = 0
        while (child := 2 * place + 1) < len(queue):
            if child + 1 < len(queue) and queue[child].load > queue[child + 1].load:
                child += 1
            if last.load <= queue[child].load:
                break
            queue[place] = queue[child]
            place = child
        queue[place] = last
        return least


def first_process_only(members: list[Member], task: Task | None) -> Member | None:
    """The search of Kafka 4.3.1, with its defect (KAFKA-20899)."""
    if not members:
        return None
    found = members[0]
    for member in members[1:]:
        is_less_loaded = member.process.load < found.process.load and member.count < found.count
        if is_less_loaded and task not in member.process.tasks:
            found = member
    return None if task in members[0].process.tasks else found
