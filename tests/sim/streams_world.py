"""The world of streams groups (KIP-1071): threads of several processes that join, leave, crash, hang and come back,
topics that come, grow and go, internal topics that cannot be created, late requests, failing disks, restarts,
compaction, and coordinators that move.

The coordinator's log is a partition of the broker, on files. The world keeps the threads' knowledge apart from the
coordinator's state, and compares the two after each step.
The file is long because each act needs what the others left under way: requests, deadlines and late answers.
"""

from __future__ import annotations

import random
from typing import Any, Final, cast

from broker_cy.coordinator import expiry
from broker_cy.coordinator.settings import StreamsGroupSettings
from broker_cy.coordinator.streams.group import StreamsGroup
from broker_cy.coordinator.streams.internal_topics import NotCreated
from broker_cy.core.errors import ErrorCode
from tests.broker_cy.coordinator.consumer_harness import Topics
from tests.sim.consumer_checks import check_compaction
from tests.sim.group_clients import LOG, PAST_MAX
from tests.sim.real_partitions import Partitions
from tests.sim.streams_checks import check, check_settled, check_written, is_current
from tests.sim.streams_clients import (
    GROUPS,
    INTERNAL,
    MEMBERS_MAX,
    PROCESSES,
    QUIET_ROUNDS,
    REBALANCE_MS,
    ROUND_MS,
    SESSION_MS,
    SETTLE_ROUNDS,
    SOURCES,
    TOPOLOGIES,
    Past,
    StreamsCoordinator,
    Task,
    Thread,
)

RETRIABLE: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
# The topic that each task of a subtopology reads, for commits.
INPUTS: Final = {("k", "0"): "t", ("k", "1"): "k-words", ("l", "0"): "u"}
# Both subtopologies of "l" read "u". As with Kafka, commits in it are checked against the tasks of the other one, which
# other members may have. No application of Kafka Streams reads a topic in two subtopologies.
SHARED: Final = ("l", "0")


def assigned_at_once_max(seed: int) -> int:
    """In every fourth world, each group is a large one, which is assigned in the background."""
    return 0 if seed % 4 == 3 else 400


class StreamsWorld:
    """`root` is an empty directory."""

    def __init__(self, seed: int, root: str) -> None:
        self.rng = random.Random(seed)
        self.store = Partitions(root, {LOG[0]: 1})
        self.topics = Topics(t=4, u=3)
        streams = StreamsGroupSettings(
            max_size=MEMBERS_MAX,
            assignment_interval_ms=self.rng.choice([0, 1_000]),
            initial_rebalance_delay_ms=self.rng.choice([0, 3_000]),
            standby_replicas=self.rng.choice([0, 1]),
            assigned_at_once_max=assigned_at_once_max(seed),
        )
        self.work_weight = 0 if streams.assigned_at_once_max else 5
        self.harness = StreamsCoordinator(self.store, self.topics, streams=streams)
        self.threads: list[Thread] = []
        self.past: list[Past] = []
        # The newest epoch that a member of each group has received.
        self.newest: dict[str, int] = {}
        # Since when a member has no thread, and since when it has to give these tasks up.
        self.silent: dict[tuple[str, str], tuple[int, object]] = {}
        self.stuck: dict[tuple[str, str], tuple[int, object]] = {}
        self.committed: dict[tuple[str, str, int], int] = {}
        self.awaited_commits: dict[object, tuple[str, str, int, int]] = {}
        self.late_commits: list[tuple[str, str, int, int]] = []
        self.move_weight = seed % 2
        self.counter = 0
        self.moves = 0
        self.assignments = 0
        self.settled = 0

    def token(self) -> object:
        self.counter += 1
        return self.counter

    # ---- what can happen ----

    def step(self) -> None:
        actions = [
            (self.new_thread, 5),
            (self.act, 40),
            (self.crash, 1),
            (self.hang_up, 3),
            (self.leave, 2),
            (self.commit, 6),
            (self.late, 5),
            (self.reset, 2),
            (self.advance, 10),
            (self.change_topics, 1),
            (self.serve, 6),
            (self.toggle_hold, 3),
            (self.fail_disk, 3),
            (self.time_out, 1),
            (self.restart, 1),
            (self.move, self.move_weight),
            (self.delete, 1),
            (self.sweep, 1),
            (self.compact, 1),
            (self.settle, 1),
            (self.work, self.work_weight),
        ]
        self.rng.choices([a for a, _ in actions], [w for _, w in actions])[0]()
        self.deliver()
        check(self)

    def work(self) -> None:
        """Let assignments end."""
        self.harness.work()

    def new_thread(self) -> None:
        if sum(thread.alive for thread in self.threads) >= 10:
            return
        self.threads = [thread for thread in self.threads if thread.alive]
        group_id, process = self.rng.choice(GROUPS), self.rng.choice(PROCESSES)
        self.threads.append(
            Thread(f"c{self.token()}", group_id, f"{group_id}-{process}", is_slow=self.rng.random() < 0.05)
        )

    def pick(self, **wanted: Any) -> Thread | None:
        found = [c for c in self.threads if c.alive and all(getattr(c, k) == v for k, v in wanted.items())]
        return self.rng.choice(found) if found else None

    def act(self) -> None:
        """Let one thread do what it does next."""
        thread = self.pick(waiting=None)
        if thread is None:
            return
        if (thread.lost or thread.lost_standby) and not thread.is_slow and self.rng.random() < 0.7:
            thread.lost, thread.lost_standby = set(), set()
            thread.must_report = True
        self.beat(thread)

    def beat(self, thread: Thread) -> None:
        thread.waiting, thread.waits_epoch = self.token(), thread.epoch
        is_join = thread.epoch == 0
        reports = is_join or thread.must_report
        self.harness.beat(
            thread.waiting,
            thread.member_id,
            thread.epoch,
            group_id=thread.group_id,
            topology=TOPOLOGIES[thread.group_id] if is_join else None,
            process_id=thread.process_id if is_join else None,
            owned=_by_subtopology(thread.processed) if reports else None,
            standby=_by_subtopology(thread.standby | thread.lost_standby),
            rebalance_ms=REBALANCE_MS if is_join else -1,
            client_id=thread.name,
        )

    def note_past(self, thread: Thread) -> None:
        if thread.epoch > 0:
            self.past.append(Past(thread.group_id, thread.member_id, thread.epoch, frozenset(thread.active)))
            del self.past[:-PAST_MAX]

    def crash(self) -> None:
        """End a thread without leaving the group."""
        thread = self.pick()
        if thread is not None:
            self.note_past(thread)
            thread.alive, thread.waiting = False, None

    def hang_up(self) -> None:
        """Let a thread lose its connection, with the answer that it waits for, or begin again without membership."""
        thread = self.pick()
        if thread is None or thread.waiting is None:
            return
        thread.waiting, thread.must_report = None, True
        if self.rng.random() < 0.2:
            self.note_past(thread)
            thread.gone()

    def leave(self) -> None:
        thread = self.pick(waiting=None)
        if thread is None or not thread.is_member:
            return
        self.note_past(thread)
        self.harness.beat(self.token(), thread.member_id, -1, group_id=thread.group_id)
        thread.gone()
        thread.alive = False

    # ---- offsets ----

    def commit(self) -> None:
        """Commit for a task that the thread has, which must be accepted unless it is no longer a member."""
        thread = self.pick()
        if thread is not None and thread.is_member and thread.processed:
            task = self.rng.choice(sorted(thread.processed))
            self.send_commit(thread.group_id, thread.member_id, thread.epoch, task, thread)

    def late(self) -> None:
        """Deliver a delayed commit of a membership that may be over."""
        if self.past:
            past = self.rng.choice(self.past)
            if past.active:
                self.send_commit(past.group_id, past.member_id, past.epoch, self.rng.choice(sorted(past.active)), None)

    def send_commit(self, group_id: str, member_id: str, epoch: int, task: Task, owner: Thread | None) -> None:
        topic = INPUTS.get((group_id, task[0]))
        known = None if topic is None else self.topics.image.topics.by_name(topic)
        if topic is None or known is None or task[1] not in known.partitions:
            # The handler refuses partitions that do not exist.
            return
        token, offset = self.token(), self.rng.randrange(1000)
        group = self.harness.machine.groups.get(group_id)
        members = group.members if isinstance(group, StreamsGroup) else {}
        others = [
            thread.name
            for thread in self.threads
            if thread.group_id == group_id
            and thread.member_id != member_id
            and is_current(self, thread)
            and task in thread.processed
        ]
        self.awaited_commits[token] = (group_id, topic, task[1], offset)
        self.harness.commit(
            token,
            offset,
            member_id=member_id,
            generation=epoch,
            group_id=group_id,
            topic=topic,
            topic_id=known.topic_id,
            partition=task[1],
        )
        answer = self.harness.answers.get(token)
        code = None if answer is None else ErrorCode(answer.topics[0].partitions[0].error_code)
        is_accepted = code in (None, ErrorCode.NONE)
        is_checked = (group_id, task[0]) != SHARED
        if is_accepted and isinstance(group, StreamsGroup):
            assert not (is_checked and others), f"a commit of {member_id} for {task} is accepted, and {others} have it"
            assert member_id in members, f"a commit of {member_id}, which is not a member, is accepted"
        if owner is not None and member_id in members and is_checked:
            assert is_accepted, f"a commit of {owner.name} for its own {task} is refused: {code}"

    def reset(self) -> None:
        """Commit from outside: it makes a classic group if there is none, and is refused if the group has members."""
        group_id = self.rng.choice(GROUPS)
        topic = INPUTS[group_id, "0"]
        known = self.topics.image.topics.by_name(topic)
        if known is None:
            return
        token, offset = self.token(), self.rng.randrange(1000)
        group = self.harness.machine.groups.get(group_id)
        self.awaited_commits[token] = (group_id, topic, 0, offset)
        code = self.harness.commit(token, offset, group_id=group_id, topic=topic, topic_id=known.topic_id)
        if isinstance(group, StreamsGroup) and group.members:
            assert code is ErrorCode.UNKNOWN_MEMBER_ID, f"a commit from outside in {group_id} is answered with {code}"
        else:
            assert code in (None, ErrorCode.NONE), f"a commit from outside in {group_id} is refused: {code}"

    # ---- topics ----

    def change_topics(self) -> None:
        internal = [topic for topics in INTERNAL.values() for topic in topics]
        name = self.rng.choice([*SOURCES, *SOURCES, *internal])
        known = self.topics.image.topics.by_name(name)
        if known is None:
            if name in SOURCES:
                self.harness.change(self.topics.put(name, self.rng.randrange(1, 5)))
        elif name in SOURCES and self.rng.random() < 0.3 and len(known.partitions) < 6:
            self.harness.change(self.topics.put(name, len(known.partitions) + 1))
        else:
            self.delete_topic(name)

    def delete_topic(self, name: str) -> None:
        self.harness.change(self.topics.delete(name))
        self.committed = {key: offset for key, offset in self.committed.items() if key[1] != name}
        self.awaited_commits = {t: c for t, c in self.awaited_commits.items() if c[1] != name}
        self.late_commits = [c for c in self.late_commits if c[1] != name]

    def serve(self) -> None:
        """Create internal topics, or not."""
        draw = self.rng.random()
        if draw < 0.1:
            self.harness.lose_calls()
        elif draw < 0.2:
            self.harness.create(NotCreated("k-words", "no"), NotCreated("l-store", "no"))
        else:
            self.harness.create()

    # ---- the rest of the world ----

    def advance(self) -> None:
        self.harness.advance(self.rng.choice([1, 50, 500, 1_000, 5_000, REBALANCE_MS, SESSION_MS // 2, SESSION_MS]))

    def toggle_hold(self) -> None:
        self.harness.hold = not self.harness.hold
        if not self.harness.hold and self.harness.held:
            self.harness.write()
            self.take_late()

    def fail_disk(self) -> None:
        """Lose the records that are not written; the threads may take long to notice."""
        if self.harness.held:
            self.harness.fail()
            self.late_commits.clear()
            self.forget_deadlines()
            self.deliver()
            check(self)
            if self.rng.random() < 0.5:
                self.harness.advance(REBALANCE_MS + ROUND_MS)

    def time_out(self) -> None:
        if self.harness.held:
            self.harness.time_out()
            self.deliver()
            assert not self.awaited_commits, f"commits are not answered in time: {self.awaited_commits}"

    def take_late(self) -> None:
        """Records that were not written in time are in the log now."""
        for group_id, topic, partition, offset in self.late_commits:
            found = self.harness.machine.offsets.get(group_id, topic, partition)
            if found is not None and found.committed_offset == offset:
                self.committed[group_id, topic, partition] = offset
        self.late_commits.clear()

    def forget_deadlines(self) -> None:
        """All sessions begin again."""
        self.silent.clear()
        self.stuck.clear()

    def lose_answers(self) -> None:
        for thread in self.threads:
            if thread.waiting is not None and thread.waiting not in self.harness.answers:
                thread.waiting, thread.must_report = None, True
        self.harness.works = []
        self.harness.calls = []
        self.awaited_commits.clear()
        self.late_commits.clear()
        self.forget_deadlines()

    def restart(self) -> None:
        """Kill the broker and start it again: unwritten records and all connections are lost."""
        self.deliver()
        self.harness.restart()
        self.lose_answers()
        self.forget_gone_groups()

    def move(self) -> None:
        """Elect another broker, which has a part of the unacknowledged records."""
        old = self.harness
        self.moves += 1
        kept = self.rng.randrange(len(old.held) + 1)
        self.harness = cast(StreamsCoordinator, old.successor(kept))
        self.harness.calls = []
        self.late_commits += self.awaited_commits.values()
        self.take_late()
        if old.held and self.rng.random() < 0.5:
            old.write()
        old.learn()
        self.deliver()
        self.lose_answers()
        self.forget_gone_groups()

    def delete(self) -> None:
        group_id = self.rng.choice(GROUPS)
        group = self.harness.machine.groups.get(group_id)
        has_members = isinstance(group, StreamsGroup) and bool(group.members)
        codes = self.harness.delete_groups(self.token(), group_id)
        if has_members:
            assert codes.get(group_id) is not ErrorCode.NONE, f"{group_id} was deleted under its members"
        else:
            self.forget_group(group_id)

    def sweep(self) -> None:
        self.harness.run(expiry.sweep)
        self.forget_gone_groups()

    def forget_gone_groups(self) -> None:
        for group_id in GROUPS:
            if group_id not in self.harness.machine.groups:
                self.forget_group(group_id)

    def forget_group(self, group_id: str) -> None:
        """The group may be deleted, and another one of its id begin."""
        self.newest.pop(group_id, None)
        self.committed = {key: offset for key, offset in self.committed.items() if key[0] != group_id}
        self.awaited_commits = {t: c for t, c in self.awaited_commits.items() if c[0] != group_id}
        self.late_commits = [c for c in self.late_commits if c[0] != group_id]

    def compact(self) -> None:
        check_compaction(cast(Any, self))
        check_written(self, self.rng.choice(GROUPS))

    # ---- stable groups ----

    def settle(self) -> None:
        """Without further faults, groups become stable, and each task has one member, and its copies."""
        if self.harness.hold:
            self.toggle_hold()
            self.deliver()
        for thread in self.threads:
            thread.is_slow = False
        epochs: dict[str, object] = {}
        for number in range(SETTLE_ROUNDS):
            if number == SETTLE_ROUNDS - QUIET_ROUNDS:
                epochs = {group_id: self.epoch_of(group_id) for group_id in GROUPS}
            self.harness.advance(ROUND_MS)
            self.harness.create()
            self.harness.work()
            for thread in [thread for thread in self.threads if thread.alive]:
                thread.lost, thread.lost_standby, thread.must_report = set(), set(), True
                if thread.waiting is None:
                    self.beat(thread)
                self.deliver()
                check(self)
        for group_id in GROUPS:
            # Members that crashed before may be removed at any time, which begins another epoch.
            if self.epoch_of(group_id) == epochs[group_id]:
                check_settled(self, group_id)
        self.settled += 1

    def epoch_of(self, group_id: str) -> object:
        group = self.harness.machine.groups.get(group_id)
        return (group.number, group.epoch) if isinstance(group, StreamsGroup) else None

    # ---- answers ----

    def deliver(self) -> None:
        for thread in self.threads:
            if thread.waiting is not None and thread.waiting in self.harness.answers:
                answer = self.harness.answers[thread.waiting]
                thread.waiting = None
                self.answered(thread, answer)
        for token in [t for t in self.awaited_commits if t in self.harness.answers]:
            group_id, topic, partition, offset = self.awaited_commits.pop(token)
            code = self.harness.answers[token].topics[0].partitions[0].error_code
            if code == ErrorCode.NONE:
                self.committed[group_id, topic, partition] = offset
            elif code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                self.late_commits.append((group_id, topic, partition, offset))

    def answered(self, thread: Thread, answer: Any) -> None:
        code = ErrorCode(answer.error_code)
        if code in RETRIABLE:
            thread.must_report = True
            return
        if code is not ErrorCode.NONE:
            self.refused(thread, code)
            return
        assert answer.member_epoch >= thread.waits_epoch, f"the epoch of {thread.name} went back"
        if thread.epoch != answer.member_epoch:
            self.note_past(thread)
        thread.epoch, thread.must_report = answer.member_epoch, False
        group = self.harness.machine.groups.get(thread.group_id)
        if isinstance(group, StreamsGroup) and thread.member_id in group.members:
            self.newest[thread.group_id] = max(self.newest.get(thread.group_id, 0), thread.epoch)
        if answer.active_tasks is not None:
            self.assignments += 1
            active, standby = (_tasks(ids) for ids in (answer.active_tasks, answer.standby_tasks))
            thread.lost = (thread.lost | thread.active) - active
            thread.lost_standby = (thread.lost_standby | thread.standby) - standby
            thread.active, thread.standby = active, standby

    def refused(self, thread: Thread, code: ErrorCode) -> None:
        self.note_past(thread)
        was_join = thread.waits_epoch == 0
        thread.gone()
        if code is ErrorCode.GROUP_MAX_SIZE_REACHED:
            group = self.harness.machine.groups.get(thread.group_id)
            is_member = isinstance(group, StreamsGroup) and thread.member_id in group.members
            assert not is_member, f"{thread.name} is refused in its own group"
            thread.alive = False
            return
        if code is ErrorCode.INVALID_REQUEST:
            # A topic was deleted, or recreated with fewer partitions, and it has reported tasks that no longer exist.
            assert not was_join, f"{thread.name} cannot join: {code.name}"
            return
        assert code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ), code
        assert not was_join, f"{thread.name} cannot join: {code.name}"


def _by_subtopology(tasks: set[Task]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for subtopology, partition in sorted(tasks):
        found.setdefault(subtopology, []).append(partition)
    return found


def _tasks(ids: Any) -> set[Task]:
    return {(each.subtopology_id, partition) for each in ids for partition in each.partitions}
