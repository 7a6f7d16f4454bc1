"""The invariants of streams groups: the coordinator's state against its members' knowledge, and against its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_cy.coordinator.streams.describe import describe
from broker_cy.coordinator.streams.group import StreamsGroup
from broker_cy.coordinator.streams.member import HeldTasks, MemberState
from tests.broker_cy.coordinator.harness import durable, replayed, streams_state
from tests.sim.streams_clients import INTERNAL, MEMBERS_MAX, REBALANCE_MS, SESSION_MS, STATEFUL, Task, Thread

if TYPE_CHECKING:
    from tests.sim.streams_world import StreamsWorld

# A replay costs as much as all steps before it.
REPLAYED_SHARE = 0.1


def check(world: StreamsWorld) -> None:
    """Check the invariants after each step; the AssertionError names the violation."""
    machine = world.harness.machine
    for group_id in set(world.newest) - machine.groups.keys():
        del world.newest[group_id]
    for group in machine.groups.values():
        if isinstance(group, StreamsGroup):
            check_owners(group)
            _check_epochs(world, group)
            _check_deadlines(world, group)
            assert len(group.members) <= MEMBERS_MAX, f"{group.group_id} has {len(group.members)} members"
    _check_processed(world)
    if world.harness.held:
        return
    if world.rng.random() < REPLAYED_SHARE:
        again = replayed(world.harness.log, world.harness.settings, world.harness.now, machine.image)
        now_state = durable(machine)
        wrong = {key for key, value in durable(again).items() if value != now_state[key]}
        assert not wrong, f"a restart would restore other {wrong}"
    for (group_id, topic, partition), offset in world.committed.items():
        found = machine.offsets.get(group_id, topic, partition)
        assert found is not None, f"an acknowledged commit of {group_id} in {topic}-{partition} is lost"
        assert found.committed_offset == offset, "an acknowledged commit went back"


def _tasks(held: HeldTasks) -> tuple[set[Task], set[Task]]:
    """The active ones, and the others."""
    active, standby, warmup = (
        {(subtopology, partition) for subtopology, partitions in tasks.items() for partition in partitions}
        for tasks in held
    )
    return active, standby | warmup


def check_owners(group: StreamsGroup) -> None:
    """A task is active in one member, and a process has it once."""
    active: dict[Task, str] = {}
    in_process: dict[tuple[str, Task], str] = {}
    for member in group.members.values():
        for held in (member.assigned, member.revoking):
            own, copies = _tasks(held)
            for task in own:
                before = active.setdefault(task, member.member_id)
                assert before == member.member_id, f"{before} and {member.member_id} have the task {task}"
            for task in own | copies:
                key = (member.process_id, task)
                assert key not in in_process, f"{in_process[key]} and {member.member_id} of one process have {task}"
                in_process[key] = member.member_id
    assert group.active == active, f"the owners of {group.group_id} are {active}, and its index is {group.active}"


def _check_epochs(world: StreamsWorld, group: StreamsGroup) -> None:
    """Members have at most the epoch of the assignment, and no acknowledged epoch is taken back."""
    assert group.assignment_epoch <= group.epoch
    for member in group.members.values():
        assert member.epoch <= group.assignment_epoch, f"{member.member_id} is ahead of the assignment"
    newest = world.newest.get(group.group_id, 0)
    assert group.epoch >= newest, f"a member has epoch {newest} of {group.group_id}, which has epoch {group.epoch}"


def _check_deadlines(world: StreamsWorld, group: StreamsGroup) -> None:
    """Members without a thread, and members that do not give tasks up, are removed in time."""
    now_ms = world.harness.mono_ms
    alive = {thread.member_id for thread in world.threads if thread.alive}
    silent = {member_id for member_id in group.members if member_id not in alive}
    stuck = {member.member_id for member in group.members.values() if member.state is MemberState.UNREVOKED_TASKS}
    for known, found, limit_ms, what in (
        (world.silent, silent, SESSION_MS, "has no thread"),
        (world.stuck, stuck, REBALANCE_MS, "has to give up tasks"),
    ):
        for key in [key for key in known if key[0] == group.group_id and key[1] not in found]:
            del known[key]
        for member_id in found:
            # Each further revocation has time of its own.
            of = repr(group.members[member_id].revoking) if known is world.stuck else None
            since_ms, before = known.setdefault((group.group_id, member_id), (now_ms, of))
            if before != of:
                known[group.group_id, member_id] = (now_ms, of)
            else:
                assert now_ms - since_ms <= limit_ms, f"{member_id} {what} for {now_ms - since_ms} ms"


def is_current(world: StreamsWorld, thread: Thread) -> bool:
    """Whether the thread is a member. One that was removed may not know it yet."""
    group = world.harness.machine.groups.get(thread.group_id)
    return thread.is_member and isinstance(group, StreamsGroup) and thread.member_id in group.members


def _check_processed(world: StreamsWorld) -> None:
    """Two members never process one task, in whichever processes they are."""
    found: dict[tuple[str, Task], str] = {}
    for thread in world.threads:
        if is_current(world, thread):
            for task in thread.processed:
                before = found.setdefault((thread.group_id, task), thread.name)
                assert before == thread.name, f"{before} and {thread.name} process {task} of {thread.group_id}"


def check_written(world: StreamsWorld, group_id: str) -> None:
    """StreamsGroupDescribe shows the group that a coordinator with the written records alone would show."""
    machine = world.harness.machine
    shown = world.harness.written().get(group_id)
    again = replayed(world.harness.log, world.harness.settings, world.harness.now, machine.image)
    written = again.groups.get(group_id)
    if not any(isinstance(group, StreamsGroup) for group in (shown, written)):
        return
    found = [describe(group, group_id).whole() for group in (shown, written)]
    for each in found:
        each.members.sort(key=lambda member: member.member_id)
        # A coordinator compares the topology with the topics at the first heartbeat.
        each.topology = None
    assert found[0] == found[1], f"{group_id} is shown as {found[0]}, and {found[1]} is written"
    if isinstance(shown, StreamsGroup) and isinstance(written, StreamsGroup):
        assert streams_state(shown) == streams_state(written), f"the written state of {group_id} is another one"


def expected_tasks(world: StreamsWorld, group_id: str) -> set[Task]:
    """The tasks that the topics give, computed for these two topologies alone."""
    counts = {topic.name: len(topic.partitions) for topic in world.topics.image.topics}
    if "t" not in counts or (group_id == "l" and "u" not in counts):
        return set()
    tasks = {"0": counts["t"], "1": counts["t"]}
    if group_id == "l":
        tasks = {"0": counts["u"], "1": max(counts["t"], counts["u"])}
    # Those that are missing are created.
    if any(counts.get(topic, tasks["0"]) != tasks["0"] for topic in INTERNAL[group_id]):
        return set()
    return {(subtopology, number) for subtopology, count in tasks.items() for number in range(count)}


def check_settled(world: StreamsWorld, group_id: str) -> None:
    threads = [thread for thread in world.threads if thread.alive and thread.group_id == group_id]
    group = world.harness.machine.groups.get(group_id)
    if not threads or not isinstance(group, StreamsGroup):
        assert not threads, f"{group_id} does not exist, and has threads"
        return
    for thread in threads:
        assert thread.member_id in group.members, f"{thread.name} is not a member of {group_id}"
        member = group.members[thread.member_id]
        assert thread.epoch == member.epoch, f"{thread.name} does not know its epoch"
        held = _tasks(member.assigned)
        assert (thread.active, thread.standby) == held, f"{thread.name} does not know its tasks"
    if {thread.member_id for thread in threads} != group.members.keys():
        # Others have crashed, and their sessions have not ended yet.
        return
    wanted = expected_tasks(world, group_id)
    expected = "Stable" if wanted else "NotReady"
    assert group.state_name == expected, f"{group_id} is {group.state_name}, not {expected}"
    owned = sorted(task for thread in threads for task in thread.active)
    assert owned == sorted(wanted), f"{group_id} processes {owned} of {sorted(wanted)}"
    copies = sorted(task for thread in threads for task in thread.standby)
    others = len({thread.process_id for thread in threads}) - 1
    replicas = min(world.harness.settings.streams.standby_replicas, others)
    stateful = sorted(task for task in wanted if task[0] == STATEFUL[group_id] for _ in range(replicas))
    assert copies == stateful, f"{group_id} has the standby tasks {copies}, not {stateful}"
