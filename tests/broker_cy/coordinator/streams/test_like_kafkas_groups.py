"""Our reconciliation of a streams group's member and our configuration of a topology, and Kafka's, from the same
values: the same next states, tasks and missing topics.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from broker_cy.coordinator.assignors.streams_spec import TaskAssignment
from broker_cy.coordinator.streams.configure import configure
from broker_cy.coordinator.streams.member import HeldTasks, MemberState, StreamsMember
from broker_cy.coordinator.streams.reconcile import Wanted, reconciled
from broker_cy.coordinator.streams.topology import of_request
from broker_cy.core.errors import ErrorCode, KafkaError
from tests.broker_cy.coordinator.streams_harness import Part, topology
from tests.support import kafka_tools, needs, recorded

NAME = "streams-groups"
TIMEOUT_S = 240.0
MEMBERS, TOPOLOGIES = 3_000, 3_000
SUBTOPOLOGIES, PARTITIONS, EPOCH = ("0", "1"), 3, 9
ROLES = ("active", "standby", "warmup")

Numbers = Mapping[str, Mapping[int, int]]  # subtopology -> partition -> epoch


@needs.java
@pytest.mark.full
def test_recorded_answers_are_those_of_kafka() -> None:
    """If this fails, the answers that `make test` compares with are not Kafka's."""
    source = Path(__file__).with_name("KafkaStreamsGroups.java")
    done = kafka_tools.run_program(source, stdin=("\n".join(cases()) + "\n").encode(), timeout_s=TIMEOUT_S)
    recorded.check(NAME, done.stdout.decode().splitlines())


def test_same_answers() -> None:
    """If this fails, a member loses tasks that Kafka would leave to it, gets one that another member has, or gets other
    tasks than from Kafka.
    """
    kinds = set()
    for case, expected in zip(cases(), recorded.of_kafka(NAME), strict=True):
        found = ours(case)
        assert found == expected, f"{case}: {found}, Kafka {expected}"
        kinds.add(found.split(" ")[0])
    states = {"STABLE", "UNREVOKED_TASKS", "UNRELEASED_TASKS", "fenced"}
    statuses = {"READY", "MISSING_INTERNAL_TOPICS", "MISSING_SOURCE_TOPICS", "INCORRECTLY_PARTITIONED_TOPICS"}
    assert kinds == states | statuses | {"invalid", "failed"}


def cases() -> list[str]:
    draw = random.Random("streams groups")
    members = [" ".join(member_case(draw)) for _ in range(MEMBERS)]
    return [*members, *(" ".join(topology_case(draw)) for _ in range(TOPOLOGIES))]


def ours(line: str) -> str:
    """The answer to a case."""
    words = line.split(" ")
    return our_member(words) if words[0] == "member" else our_topology(words)


# ---- members ----


def member_case(draw: random.Random) -> Iterator[str]:
    """Yield the words of a case: see KafkaStreamsGroups.java. Most members are ones that a group can have."""
    state = draw.choice(["STABLE", "UNREVOKED_TASKS", "UNRELEASED_TASKS", "UNKNOWN"])
    assigned, revoking, target = (
        {role: {each: dict[int, int]() for each in SUBTOPOLOGIES} for role in ROLES} for _ in "123"
    )
    processes: list[str] = []
    for each in SUBTOPOLOGIES:
        for number in range(PARTITIONS):
            role = draw.choice(ROLES)
            place = draw.choice([assigned, assigned, revoking, None])
            if place is not None and (place is assigned or state == "UNREVOKED_TASKS"):
                place[role][each][number] = draw.randint(1, EPOCH)
                processes.append(f"{role}:{each}:{number}:p")
            elif draw.random() < 0.4:
                processes.append(f"{draw.choice(ROLES)}:{each}:{number}:{draw.choice('pq')}")
            if draw.random() < 0.7:
                target[draw.choice([role, *ROLES])][each][number] = 0
    yield "member"
    yield state
    yield str(EPOCH)
    yield str(draw.choice([EPOCH, EPOCH - 1]))
    yield roles_text(assigned, with_epochs=True)
    yield roles_text(revoking, with_epochs=True)
    yield str(EPOCH + draw.randint(0, 2))
    yield roles_text(target)
    yield ",".join(processes) or "-"
    yield draw.choice(["?", "-/-/-", roles_text(assigned), roles_text(revoking), roles_text(some_of(draw, assigned))])


def some_of(draw: random.Random, held: Mapping[str, Numbers]) -> dict[str, dict[str, dict[int, int]]]:
    return {
        role: {
            each: {number: epoch for number, epoch in numbers.items() if draw.random() < 0.5}
            for each, numbers in tasks.items()
        }
        for role, tasks in held.items()
    }


def our_member(words: list[str]) -> str:
    _, state, epoch, previous, assigned, revoking, target_epoch, target, processes, owned = words
    member = StreamsMember(
        "m",
        epoch=int(epoch),
        previous_epoch=int(previous),
        state=MemberState[state],
        process_id="p",
        assigned=held(assigned),
        revoking=held(revoking),
    )
    active: dict[tuple[str, int], str] = {}
    copies = set()
    for each in [] if processes == "-" else processes.split(","):
        role, subtopology, number, process = each.split(":")
        if role == "active":
            active[subtopology, int(number)] = process
        else:
            copies.add((subtopology, int(number), process))
    wanted = Wanted(
        int(target_epoch),
        tasks(target),
        lambda subtopology, number: active.get((subtopology, number)),
        lambda subtopology, number, process: (subtopology, number, process) in copies,
    )
    try:
        found = reconciled(member, wanted, None if owned == "?" else tasks(owned))
    except KafkaError:
        return "fenced"
    texts = (
        roles_text(
            {"active": each.active, **{role: zeros(getattr(each, role)) for role in ROLES[1:]}}, with_epochs=True
        )
        for each in (found.assigned, found.revoking)
    )
    return f"{found.state.name} {found.epoch} {found.previous_epoch} {' '.join(texts)}"


def zeros(tasks_: Mapping[str, frozenset[int]]) -> Numbers:
    return {each: dict.fromkeys(numbers, 0) for each, numbers in tasks_.items()}


def held(text: str) -> HeldTasks:
    active, standby, warmup = (numbers(part) for part in text.split("/"))
    return HeldTasks(active, sets(standby), sets(warmup))


def tasks(text: str) -> TaskAssignment:
    return TaskAssignment(*(sets(numbers(part)) for part in text.split("/")))


def sets(found: Numbers) -> dict[str, frozenset[int]]:
    return {each: frozenset(partitions) for each, partitions in found.items()}


def numbers(text: str) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for part in [] if text == "-" else text.split(";"):
        subtopology, each = part.split(":")
        pairs = [number.split("@") for number in each.split(",")]
        found[subtopology] = {int(pair[0]): int(pair[1]) if len(pair) > 1 else 0 for pair in pairs}
    return found


def roles_text(found: Mapping[str, Numbers], with_epochs: bool = False) -> str:
    """Only active tasks have epochs."""
    return "/".join(text_of(found[role], with_epochs and role == "active") for role in ROLES)


def text_of(found: Numbers, with_epochs: bool) -> str:
    parts = []
    for each in sorted(found):
        pairs = [f"{number}@{epoch}" if with_epochs else str(number) for number, epoch in sorted(found[each].items())]
        if pairs:
            parts.append(f"{each}:{','.join(pairs)}")
    return ";".join(parts) or "-"


# ---- topologies ----


def topology_case(draw: random.Random) -> Iterator[str]:
    """Yield the words of a case. In most of them, the subtopologies are a chain of repartition topics."""
    usual = draw.choice([2, 2, 2, 3])
    counts = {name: usual if draw.random() < 0.85 else draw.randint(1, 4) for name in "abc" if draw.random() < 0.95}
    repartitions = ("r", "s", "u")
    for name in (*repartitions, "x", "y"):
        if draw.random() < 0.15:
            counts[name] = usual if draw.random() < 0.7 else draw.randint(1, 4)
    yield "topology"
    yield ",".join(f"{name}={count}" for name, count in counts.items()) or "-"
    count = draw.randint(1, 3)
    written = draw.sample(repartitions, draw.choice([0, 1, 1, 2, 2, 3]))
    # A fixed number of partitions, or none.
    fixed = {name: draw.choice(["", "", "", "", f"={usual}", f"={draw.randint(1, 4)}"]) for name in repartitions}
    for number in range(count):
        sources = draw.sample("abc", draw.choice([1, 1, 2])) if number == 0 or draw.random() < 0.4 else []
        read = [name for name in written if draw.random() < 0.6] if number or draw.random() < 0.1 else []
        sinks = [name for name in written if number < count - 1 or draw.random() < 0.1]
        changelogs = [name for name in ("x", "y")[number % 2 :][:1] if draw.random() < 0.5]
        groups = []
        if len(sources) + len(read) > 1 and draw.random() < 0.6:
            groups.append(f"{indexes(draw, len(sources))}+{indexes(draw, len(read))}")
        if draw.random() < 0.01:
            groups.append("9+-")
        parts = (sources, changelogs, sinks, [f"{name}{fixed[name]}" for name in read])
        yield "|".join([*(",".join(part) or "-" for part in parts), ";".join(groups) or "-"])


def indexes(draw: random.Random, count: int) -> str:
    return ",".join(str(index) for index in range(count) if draw.random() < 0.9) or "-"


def our_topology(words: list[str]) -> str:
    counts = {name: int(count) for name, count in (each.split("=") for each in listed(words[1]))}
    parts = []
    for word in words[2:]:
        sources, changelogs, sinks, read, groups = word.split("|")
        sides = [group.split("+") for group in listed(groups, ";")]
        copartitions = [([*map(int, listed(one))], [*map(int, listed(other))]) for one, other in sides]
        parts.append(Part(listed(sources), listed(changelogs), listed(sinks), listed(read), copartitions))
    try:
        found = configure(of_request(topology(*parts)), 0, counts.get)
    except KafkaError as error:
        return "invalid" if error.code is ErrorCode.STREAMS_INVALID_TOPOLOGY else "failed"
    status = "READY" if found.problem is None else found.problem.status.name
    each_tasks = ",".join(f"{each}:{one.tasks}" for each, one in (found.subtopologies or {}).items())
    missing = ",".join(f"{topic.name}={topic.partitions}" for topic in found.missing)
    return f"{status} {each_tasks or '-'} {missing or '-'}"


def listed(text: str, by: str = ",") -> list[str]:
    return [] if text == "-" else text.split(by)
