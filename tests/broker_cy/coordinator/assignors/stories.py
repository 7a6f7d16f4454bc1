"""Random commands for KafkaAssignors.java, and the same commands on our assignors.

Some of Kafka's results depend on the order of Java's hash tables. The stories use ids and sizes for which that order is
the ascending one:
- Topic ids have their number as hash code, or, for the simple assignor, the hash codes of all its partitions are 0, 1,
  2 and so on. Its groups have at most 16 members and 16 partitions, so that each hash table has as many slots.
- Process and member ids are single characters whose codes have the wanted low bits.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from uuid import UUID

from broker_cy.coordinator.assignors import share_simple, streams_sticky
from broker_cy.coordinator.assignors.consumer_assignors import CONSUMER_ASSIGNORS
from broker_cy.coordinator.assignors.spec import Assignment, GroupSpec, MemberSpec
from broker_cy.coordinator.assignors.streams_spec import (
    NO_TASKS,
    StreamsGroupSpec,
    StreamsMemberSpec,
    Subtopology,
    TaskAssignment,
    Tasks,
)

STEPS = 8
ASKING = ("assign", "sticky")  # commands with an answer
_SLOTS = 16
_INVERSE_OF_31 = pow(31, -1, 1 << 32)  # Java combines hash codes as 31 * a + b
_FIRST_CHARACTER = 0x4000
_MEMBERS_MAX = 12  # of one process: Java's table of members has 16 slots

Numbered = Mapping[str, frozenset[int]]


class Ours:
    """The commands of KafkaAssignors.java, on our assignors."""

    def __init__(self) -> None:
        self._topics: dict[str, tuple[UUID, int, frozenset[int]]] = {}
        self._members: dict[str, tuple[str | None, tuple[str, ...]]] = {}
        self._targets: dict[str, Numbered] = {}
        self._subtopologies: dict[str, Subtopology] = {}
        self._clients: dict[str, str] = {}
        self._tasks: dict[str, TaskAssignment] = {}

    def run(self, line: str) -> str | None:
        """Return the answer to a command, if it has one."""
        match line.split(" "):
            case ["new"]:
                self.__init__()  # type: ignore[misc]
            case ["topic", name, lsb, count, assignable]:
                topic_id = UUID(int=int(name) << 64 | int(lsb))
                self._topics[name] = topic_id, int(count), _numbers(assignable)
            case ["member", name, instance, topics]:
                self._members[name] = _or_none(instance), tuple(filter("-".__ne__, topics.split(",")))
            case ["hold", name, partitions]:
                self._targets[name] = _parsed(partitions)
            case ["leave", name]:
                for table in (self._members, self._targets, self._clients, self._tasks):
                    table.pop(name, None)
            case ["assign", assignor]:
                return self._assign(assignor)
            case ["subtopology", name, count, kind]:
                self._subtopologies[name] = Subtopology(int(count), kind == "stateful")
            case ["client", name, process]:
                self._clients[name] = process
            case ["tasks", name, active, standby]:
                self._tasks[name] = TaskAssignment(_parsed(active), _parsed(standby), {})
            case ["sticky", standbys]:
                return self._sticky(int(standbys))
        return None

    def _assign(self, name: str) -> str:
        names = {topic_id: topic for topic, (topic_id, _, _) in self._topics.items()}
        members = {
            member: MemberSpec(instance, None, frozenset(self._topics[t][0] for t in topics), self._held(member))
            for member, (instance, topics) in self._members.items()
        }
        counts = {topic_id: count for topic_id, count, _ in self._topics.values()}
        spec = GroupSpec(members, counts, len({each.topics for each in members.values()}) <= 1)
        if name == "simple":
            target = share_simple.assign(spec, {topic_id: numbers for topic_id, _, numbers in self._topics.values()})
        else:
            target = CONSUMER_ASSIGNORS[name](spec)
        self._targets = {
            member: {names[topic_id]: numbers for topic_id, numbers in each.items()} for member, each in target.items()
        }
        return " ".join(f"{member}={_text(each)}" for member, each in self._targets.items())

    def _held(self, member: str) -> Assignment:
        held = self._targets.get(member, {})
        return {self._topics[topic][0]: held[topic] for topic in sorted(held)}

    def _sticky(self, standbys: int) -> str:
        clients = {
            name: StreamsMemberSpec(process, self._tasks.get(name, NO_TASKS)) for name, process in self._clients.items()
        }
        result = streams_sticky.assign(StreamsGroupSpec(clients, self._subtopologies, standbys))
        self._tasks = result.assignments
        return " ".join(f"{name}={'/'.join(map(_text, each))}" for name, each in self._tasks.items())


def consumer_story(draw: random.Random) -> Iterator[str]:
    """Yield the changes of a consumer group, each with an assignment."""
    yield "new"
    is_large = draw.random() < 0.1
    assignor = "range" if draw.random() < 0.2 else "uniform"
    topics = {str(number): draw.randint(1, 60 if is_large else 9) for number in range(1, draw.randint(2, 7))}
    is_mixed = draw.random() < 0.5
    group = _Members(draw, list(topics), 80 if is_large else 12, is_mixed)
    for step in range(STEPS):
        for topic in topics:
            topics[topic] += draw.random() < 0.15 and draw.randint(1, 6)
            yield f"topic {topic} 0 {topics[topic]} -"
        yield from group.change()
        if step == 0 and draw.random() < 0.4:
            yield from group.hold(topics)
        yield f"assign {assignor}"


def share_story(draw: random.Random) -> Iterator[str]:
    """Yield the changes of a share group, each with an assignment."""
    yield "new"
    assignable = {str(number): draw.randint(0, 3) for number in range(1, draw.randint(2, 6))}
    group = _Members(draw, list(assignable), _SLOTS, draw.random() < 0.5)
    for _ in range(STEPS):
        if sum(assignable.values()) < _SLOTS and draw.random() < 0.5:
            assignable[draw.choice(list(assignable))] += 1
        yield from group.change()
        first = 0
        # The partitions of other topics have higher hash codes.
        for topic in sorted(assignable, key=lambda topic: (topic not in group.common_topics(), topic)):
            hash_code = first * _INVERSE_OF_31 % (1 << 32)
            count = assignable[topic]
            yield f"topic {topic} {hash_code ^ int(topic)} {count + 1} {_list(range(count))}"
            first += count
        yield "assign simple"


def streams_story(draw: random.Random) -> Iterator[str]:
    """Yield the changes of a streams group, each with an assignment."""
    yield "new"
    processes = draw.choice([1, 2, 4, 8])
    standbys = draw.choice([0, 0, 1, 1, 2])
    partitions = {str(number): draw.randint(1, 8) for number in range(draw.randint(1, 4))}
    kinds = {name: draw.choice(["stateful", "stateful", "stateless"]) for name in partitions}
    clients: dict[str, None] = {}
    for _ in range(STEPS):
        for name in partitions:
            partitions[name] += draw.random() < 0.1 and draw.randint(1, 3)
            yield f"subtopology {name} {partitions[name]} {kinds[name]}"
        for name in draw.sample(list(clients), draw.randint(0, len(clients) // 2)):
            del clients[name]
            yield f"leave {name}"
        # Java's table of processes has as many slots as there are processes only if there are enough members.
        wanted = max(processes // 2 + 1, len(clients) + draw.randint(0, 3))
        while len(clients) < min(wanted, 8 * processes):
            process = draw.randrange(processes)
            name = chr(_FIRST_CHARACTER + 64 * process + draw.randrange(_MEMBERS_MAX))
            if name not in clients:
                clients[name] = None
                yield f"client {name} {chr(_FIRST_CHARACTER + process)}"
        if draw.random() < 0.1:
            standbys = draw.randint(0, 3)
        yield f"sticky {standbys}"


class _Members:
    """The members of a story's group, which come, go, and subscribe again."""

    def __init__(self, draw: random.Random, topics: list[str], members_max: int, is_mixed: bool) -> None:
        self._draw = draw
        self._topics = topics
        self._max = members_max
        self._is_mixed = is_mixed
        self._common = self._some()
        self._names: list[str] = []
        self._topics_of: dict[str, str] = {}

    def common_topics(self) -> list[str]:
        """The topics of all members if they have the same ones, otherwise all topics."""
        subscriptions = {self._topics_of[name] for name in self._names}
        return sorted(subscriptions.pop().split(",")) if len(subscriptions) == 1 else self._topics

    def change(self) -> Iterator[str]:
        draw = self._draw
        if draw.random() < 0.5:
            for name in draw.sample(self._names, draw.randint(0, len(self._names) // 2)):
                self._names.remove(name)
                yield f"leave {name}"
        if draw.random() < 0.3:
            self._common = self._some()
            for name in self._names:
                if not self._is_mixed or draw.random() < 0.4:
                    yield self._subscribed(name)
        for _ in range(draw.randint(not self._names, max(1, self._max // 3))):
            name = f"{draw.choice('abyz')}{draw.randrange(1000)}"
            if len(self._names) < self._max and name not in self._names:
                self._names.append(name)
                yield self._subscribed(name)

    def hold(self, topics: Mapping[str, int]) -> Iterator[str]:
        """Give each partition to a random member, or to none."""
        held: dict[str, dict[str, set[int]]] = {name: {} for name in self._names}
        for topic, count in topics.items():
            for number in range(count):
                if self._draw.random() < 0.7:
                    held[self._draw.choice(self._names)].setdefault(topic, set()).add(number)
        for name, partitions in held.items():
            yield f"hold {name} {_text({topic: frozenset(numbers) for topic, numbers in partitions.items()})}"

    def _some(self) -> str:
        return ",".join(sorted(self._draw.sample(self._topics, self._draw.randint(1, len(self._topics)))))

    def _subscribed(self, name: str) -> str:
        # A member keeps its instance id.
        instance = f"i{name[::-1]}" if sum(map(ord, name)) % 3 == 0 else "-"
        self._topics_of[name] = self._some() if self._is_mixed else self._common
        return f"member {name} {instance} {self._topics_of[name]}"


def _or_none(text: str) -> str | None:
    return None if text == "-" else text


def _numbers(text: str) -> frozenset[int]:
    return frozenset() if text == "-" else frozenset(map(int, text.split(",")))


def _parsed(text: str) -> Tasks:
    parts = [] if text == "-" else [part.split(":") for part in text.split(";")]
    return {name: _numbers(numbers) for name, numbers in parts}


def _list(numbers: range | list[int]) -> str:
    return ",".join(map(str, numbers)) or "-"


def _text(partitions: Numbered) -> str:
    return ";".join(f"{name}:{_list(sorted(partitions[name]))}" for name in sorted(partitions)) or "-"
