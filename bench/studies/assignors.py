"""The time of the assignors of the newer group types: `python -m bench.studies.assignors`.

Each figure is the CPU time of one assignment in milliseconds, of several repeats. `first` is the assignment of a new
group, `leave` the one after a tenth of its members has left, `join` the one after a tenth as many have joined.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from bench.studies.goals import Figures, Goals, check, measure, parser
from broker_cy.coordinator.assignors import range_, share_simple, streams_sticky, uniform
from broker_cy.coordinator.assignors.spec import Assignor, GroupSpec, MemberSpec
from broker_cy.coordinator.assignors.streams_spec import (
    NO_TASKS,
    StreamsGroupSpec,
    StreamsMemberSpec,
    Subtopology,
)

PROGRAM = "bench.studies.assignors"
MEMBERS, PARTITIONS, TOPICS = 5_000, 50_000, 100
SMALL = 1_000  # members, and partitions
STREAMS_MEMBERS, STREAMS_TASKS = 1_000, 10_000
MIXED_MEMBERS, MIXED_PARTITIONS = 1_000, 10_000
REPEATS = 7
GOALS = Goals(at_most={f"uniform_{change}_ms": 50.0 for change in ("first", "leave", "join")})

SpecT = TypeVar("SpecT", GroupSpec, StreamsGroupSpec)


def group(members: int, partitions: int, is_homogeneous: bool = True, topic_count: int = TOPICS) -> GroupSpec:
    """Return a group of new members. If it is not homogeneous, each subscribes to half of the topics."""
    draw = random.Random(1)
    topics = [UUID(int=draw.getrandbits(128)) for _ in range(min(topic_count, partitions))]
    common = frozenset(topics)

    def subscribed() -> frozenset[UUID]:
        return common if is_homogeneous else frozenset(draw.sample(topics, len(topics) // 2))

    specs = {f"member-{number:06}": MemberSpec(None, None, subscribed(), {}) for number in range(members)}
    return GroupSpec(specs, dict.fromkeys(topics, partitions // len(topics)), is_homogeneous)


def times_ms(work: Callable[[], object]) -> list[float]:
    found = []
    for _ in range(REPEATS):
        started = time.process_time()
        work()
        found.append((time.process_time() - started) * 1e3)
    return found


def changes(name: str, assign: Callable[[SpecT], Mapping[str, Any]], new: SpecT, fresh: Any) -> Figures:
    """Return the figures of a new group, and of the group after members have left and joined."""
    target = assign(new)
    held = [(member, spec._replace(assigned=target[member])) for member, spec in new.members.items()]
    left = new._replace(members=dict(held[len(held) // 10 :]))
    joined = {f"new-{number}": spec._replace(assigned=fresh) for number, (_, spec) in enumerate(held[::10])}
    grown = new._replace(members={**dict(held), **joined})
    return {
        f"{name}_first_ms": times_ms(partial(assign, new)),
        f"{name}_leave_ms": times_ms(partial(assign, left)),
        f"{name}_join_ms": times_ms(partial(assign, grown)),
    }


def share_assignor(spec: GroupSpec) -> Mapping[str, Any]:
    return share_simple.assign(spec, {topic: frozenset(range(count)) for topic, count in spec.topics.items()})


def streams_assignor(spec: StreamsGroupSpec) -> Mapping[str, Any]:
    return streams_sticky.assign(spec).assignments


def streams_group(count: int, tasks: int) -> StreamsGroupSpec:
    """Return a group of new members, four in each process, with one standby of each task."""
    members = {f"member-{number:05}": f"process-{number // 4:05}" for number in range(count)}
    specs = {member: StreamsMemberSpec(process, NO_TASKS) for member, process in members.items()}
    subtopologies = {str(number): Subtopology(tasks // 10, is_stateful=True) for number in range(10)}
    return StreamsGroupSpec(specs, subtopologies, 1)


def uniform_figures() -> Figures:
    assign: Assignor = uniform.assign
    return {
        **changes("uniform", assign, group(MEMBERS, PARTITIONS), {}),
        **changes("uniform_small", assign, group(SMALL, SMALL), {}),
        **changes("uniform_mixed", assign, group(MIXED_MEMBERS, MIXED_PARTITIONS, is_homogeneous=False), {}),
    }


PARTS: dict[str, Callable[[], Figures]] = {
    "uniform": uniform_figures,
    "range": lambda: changes("range", range_.assign, group(MEMBERS, PARTITIONS), {}),
    "share": lambda: changes("share", share_assignor, group(SMALL, SMALL), {}),
    "streams": lambda: changes("streams", streams_assignor, streams_group(STREAMS_MEMBERS, STREAMS_TASKS), NO_TASKS),
}


def main() -> int:
    """Measure and print the figures; returns exit code 3 if --strict was given and a goal was missed."""
    made: argparse.ArgumentParser = parser(PROGRAM, __doc__, PARTS)
    given = made.parse_args()
    check(made, given, PARTS, ())
    return measure(PROGRAM, given, GOALS, lambda part: PARTS[part]())


if __name__ == "__main__":
    sys.exit(main())
