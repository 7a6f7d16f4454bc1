"""The sticky task assignor of streams groups: one active task each, standbys elsewhere, few moves."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest

from broker_cy.coordinator.assignors import streams_sticky
from broker_cy.coordinator.assignors.streams_spec import (
    NO_TASKS,
    StreamsGroupSpec,
    StreamsMemberSpec,
    StreamsResult,
    Subtopology,
    TaskAssignment,
    Tasks,
)

STATEFUL = {"0": Subtopology(6, is_stateful=True)}


def tasks(assigned: Tasks) -> Iterator[tuple[str, int]]:
    return ((subtopology, number) for subtopology, numbers in assigned.items() for number in numbers)


def assign(
    members: Mapping[str, tuple[str, TaskAssignment]], subtopologies: Mapping[str, Subtopology], standbys: int = 0
) -> StreamsResult:
    specs = {name: StreamsMemberSpec(process, assigned) for name, (process, assigned) in members.items()}
    spec = StreamsGroupSpec(specs, subtopologies, standbys)
    result = streams_sticky.assign(spec)
    check(spec, result)
    return result


def check(spec: StreamsGroupSpec, result: StreamsResult) -> None:
    """Each task is active once; its standbys are in other processes, as many as there are processes for."""
    assert result.assignments.keys() == spec.members.keys()
    active = Counter(task for each in result.assignments.values() for task in tasks(each.active))
    wanted = {(name, number) for name, each in spec.subtopologies.items() for number in range(each.partitions)}
    assert active == Counter(wanted)
    places: dict[tuple[str, int], list[str]] = {task: [] for task in wanted}
    standbys: Counter[tuple[str, int]] = Counter()
    for name, each in result.assignments.items():
        assert all(each.active.values())
        assert all(each.standby.values())
        assert not each.warmup
        standbys.update(tasks(each.standby))
        for task in (*tasks(each.active), *tasks(each.standby)):
            places[task].append(spec.members[name].process_id)
    assert all(len(set(processes)) == len(processes) for processes in places.values())
    processes = len({each.process_id for each in spec.members.values()})
    possible = min(spec.standby_replicas, processes - 1)
    stateful = [task for task in wanted if spec.subtopologies[task[0]].is_stateful]
    assert standbys == Counter({task: possible for task in stateful if possible})
    assert result.missing_standbys == len(stateful) * (spec.standby_replicas - possible)


def counts(result: StreamsResult) -> list[int]:
    return sorted(sum(map(len, each.active.values())) for each in result.assignments.values())


def test_random_groups() -> None:
    """If this fails, a task is processed twice or by no member, or a standby cannot take over."""
    for seed in range(150):
        draw = random.Random(f"streams {seed}")
        subtopologies = {
            str(number): Subtopology(draw.randint(1, 9), draw.random() < 0.6) for number in range(draw.randint(1, 4))
        }
        standbys = draw.randint(0, 2)
        members: dict[str, tuple[str, TaskAssignment]] = {}
        for step in range(8):
            for name in draw.sample(list(members), draw.randint(0, len(members) // 2)):
                del members[name]
            for number in range(draw.randint(not members, 4)):
                members[f"m{step}{number}"] = (f"p{draw.randint(0, 4)}", NO_TASKS)
            result = assign(members, subtopologies, standbys)
            members = {name: (process, result.assignments[name]) for name, (process, _) in members.items()}
            is_balanced = counts(result)[-1] - counts(result)[0] <= 1
            assert is_balanced or standbys or len({process for process, _ in members.values()}) < len(members)
            if is_balanced and not standbys:
                again = assign(members, subtopologies, standbys)
                assert all(again.assignments[name] is members[name][1] for name in members)


def test_new_group_has_ranges() -> None:
    """If this fails, tasks that share input partitions are not in one process."""
    result = assign(
        {"a": ("p", NO_TASKS), "b": ("q", NO_TASKS)}, {"0": Subtopology(4, True), "1": Subtopology(4, True)}
    )
    assert counts(result) == [4, 4]


def test_active_tasks_stay() -> None:
    """If this fails, each rebalance restores the state of tasks that need not move."""
    held = {
        "a": TaskAssignment({"0": frozenset({0, 1, 5})}, {}, {}),
        "b": TaskAssignment({"0": frozenset({2, 3, 4})}, {}, {}),
    }
    result = assign({name: (name, each) for name, each in held.items()}, STATEFUL)
    assert result.assignments == held
    assert all(result.assignments[name] is held[name] for name in held)
    joined = assign({**{name: (name, each) for name, each in held.items()}, "c": ("c", NO_TASKS)}, STATEFUL)
    assert counts(joined) == [2, 2, 2]
    assert all(set(tasks(joined.assignments[name].active)) < set(tasks(held[name].active)) for name in held)


def test_active_task_goes_to_its_standby() -> None:
    """If this fails, a task of a process that ended is restored from its changelog although a copy exists."""
    members = {
        "a": ("a", TaskAssignment({"0": frozenset({0})}, {"0": frozenset({2})}, {})),
        "b": ("b", TaskAssignment({"0": frozenset({1})}, {}, {})),
    }
    result = assign(members, {"0": Subtopology(3, is_stateful=True)})
    assert result.assignments["a"].active == {"0": {0, 2}}


def test_active_task_goes_to_its_warmup() -> None:
    """KAFKA-21001. If this fails, the work of a warm-up task is lost when the assignment is computed again."""
    members = {
        "a": ("a", TaskAssignment({"0": frozenset({0})}, {}, {})),
        "b": ("b", TaskAssignment({}, {}, {"0": frozenset({3})})),
        "c": ("c", NO_TASKS),
    }
    result = assign(members, {"0": Subtopology(4, is_stateful=True)})
    assert 3 in result.assignments["b"].active["0"]


def test_standby_stays_although_another_one_became_active() -> None:
    """KAFKA-20899. If this fails, the copy of a task's state is thrown away and built again elsewhere."""
    members = {
        "b": ("b", TaskAssignment({"0": frozenset({0})}, {"0": frozenset({1})}, {})),
        "c": ("c", TaskAssignment({"0": frozenset({2, 4})}, {"0": frozenset({0, 1, 3})}, {})),
        "d": ("d", NO_TASKS),
    }
    result = assign(members, {"0": Subtopology(5, is_stateful=True)}, standbys=1)
    assert 1 in result.assignments["b"].active["0"]
    assert 1 in result.assignments["c"].standby["0"]


@pytest.mark.parametrize("standbys", [0, 1])
def test_groups_without_tasks_or_members(standbys: int) -> None:
    """If this fails, a group whose topology is not valid yet gets an error instead of empty tasks."""
    assert streams_sticky.assign(StreamsGroupSpec({}, STATEFUL, standbys)) == ({}, 0)
    had = TaskAssignment({"0": frozenset({1})}, {}, {})
    assert assign({"a": ("p", had)}, {}, standbys).assignments == {"a": NO_TASKS}


def test_missing_standbys_are_counted() -> None:
    """If this fails, the operator is not warned that tasks have fewer copies than configured."""
    assert assign({"a": ("p", NO_TASKS), "b": ("p", NO_TASKS)}, STATEFUL, standbys=2).missing_standbys == 12
