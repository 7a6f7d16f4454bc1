"""Rounds of failures of one cluster, with clients at work. Each round ends with all nodes up and in sync again."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from bench.failover.timeline import Watcher, logged_ms
from bench.failover.writers import Writer, gap_ms, latencies_ms, silence_ms
from bench.targets.brokers import TargetError
from bench.targets.cluster import Cluster
from bench.wire import protocol
from bench.wire.cluster_requests import active_controller, elect_preferred_leaders
from broker_cy.launch.processes import ProcessError

TOPIC: Final = "bench-failover"
PARTITIONS: Final = 6
IDLE_TOPIC_PARTITIONS: Final = 1000
# Undisturbed writing before a failure, which gives the latency "before". It is longer than the interval between a
# client's metadata requests (5 s for franz-go): all clients have refreshed after the preceding election of preferred
# leaders.
BEFORE_S: Final = 6.0
AFTER_S: Final = 0.5  # and after it, once all clients are served again
# Records that are acknowledged shortly after a cut were in flight before it: the gap ends with a record sent later than
# this.
CUT_TAKES_S: Final = 0.1
# The time limit until clients are served again: longer than librdkafka waits for a frozen broker (a minute).
SERVED_S: Final = 90.0
FREEZE_S: Final = 12.0
# The kinds of failures, in the order of measurement. "cut" needs separate hosts (bench.launch.networks).
KINDS: Final = {
    "leader": "kill -9 of a leader",
    "controller": "kill -9 of the active controller",
    "stop": "orderly stop of a leader",
    "rolling": "rolling restart",
    "freeze": "a leader that stands still",
    "cut": "one-way cut from a leader to a follower",
}
# The active controller leads partitions, too, so its figures are also those of the partitions that the node led.
_OF_CONTROLLERS: Final = ("controller",)
# Failures of one process; the others affect a node with all its shards.
_OF_PROCESSES: Final = ("leader", "controller", "freeze")


@dataclass(frozen=True)
class Seen:
    """The measurements of one client in one round. `gap_ms`: from the failure until each partition of the node has
    acknowledged a record that was sent after it; for a rolling restart, the longest time in which a partition
    acknowledged nothing. `others_ms` is the latter for the partitions of other nodes.
    """

    gap_ms: float
    others_ms: float
    before_ms: Sequence[float]  # latencies of records
    during_ms: Sequence[float]
    after_ms: Sequence[float]


@dataclass(frozen=True)
class Round:
    """One failure: the measurements of each client, and the times at which the remaining nodes showed other leaders and
    another controller. `phases_ms` come from the logs of our nodes.
    """

    kind: str
    seen: Mapping[str, Seen]
    leaders_ms: float | None = None
    controller_ms: float | None = None
    phases_ms: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        clients = ", ".join(f"{name} {seen.gap_ms:.0f} ms" for name, seen in self.seen.items())
        phases = " ".join(f"{name} {at_ms:.0f}" for name, at_ms in self.phases_ms.items())
        shown = "" if self.leaders_ms is None else f"; other leaders shown after {self.leaders_ms:.0f} ms"
        return f"{KINDS[self.kind]}: {clients}{shown}" + (f" ({phases})" if phases else "")


class Span(NamedTuple):
    """A failure in microseconds of the system's clock: its begin, the time from which sent records end the gap, and the
    time at which all clients were served again.
    """

    began_us: int
    sent_us: int
    end_us: int


def now_us() -> int:
    """The system's clock, which clients and logs share."""
    return time.time_ns() // 1000


def _idle_topics(partitions: int) -> dict[str, int]:
    """Topics with this many partitions in total, at most IDLE_TOPIC_PARTITIONS each: an answer lists one topic's."""
    full, rest = divmod(partitions, IDLE_TOPIC_PARTITIONS)
    counts = [IDLE_TOPIC_PARTITIONS] * full + [rest] * (rest > 0)
    return {f"{TOPIC}-idle-{number}": count for number, count in enumerate(counts)}


class Rounds:
    """A running cluster with a topic, and one Writer for each of `clients`. `go_on` raises if it should stop. Each node
    also leads a third of the `idle` partitions, which have no writers.
    """

    def __init__(
        self,
        cluster: Cluster,
        clients: Sequence[str],
        directory: Path,
        go_on: Callable[[], None],
        freeze_s: float,
        idle: int = 0,
    ) -> None:
        self.cluster = cluster
        self.freeze_s = freeze_s
        self._go_on = go_on
        self._topics = {TOPIC: PARTITIONS, **_idle_topics(idle)}
        for topic, partitions in self._topics.items():
            cluster.create_topic(topic, partitions)
        self.writers: list[Writer] = []
        try:
            for client in clients:
                self.writers.append(Writer(client, cluster.bootstrap, TOPIC, PARTITIONS, directory))
        except BaseException:
            self.close()
            raise

    def finish(self) -> None:
        """End the clients. Raises TargetError if one lost a record or ended early."""
        for writer in self.writers:
            try:
                writer.finish()
            except ProcessError as error:
                raise TargetError(str(error)) from error

    def close(self) -> None:
        for writer in self.writers:
            writer.close()

    # --- conditions

    def _until(self, condition: Callable[[], bool], what: str, timeout_s: float = SERVED_S) -> None:
        def looked() -> bool:
            self._go_on()
            if ended := [writer for writer in self.writers if writer.has_ended]:
                raise TargetError(ended[0].state())
            return condition()

        self.cluster.wait(looked, what, timeout_s)

    def served(self, since_us: int, timeout_s: float = SERVED_S) -> None:
        """Wait until each client has an acknowledgement from each partition for a record sent since then."""
        self._until(lambda: all(each.goes_on(since_us) for each in self.writers), "service of all clients", timeout_s)

    def _is_settled(self) -> bool:
        if not self._is_in_sync():
            return False
        seen = [self.cluster.seen(0, topic).partitions.values() for topic in self._topics]
        if all(each.leader == each.replicas[0] for each in itertools.chain(*seen)):
            return True
        with protocol.Client(self.cluster.address) as client:
            elect_preferred_leaders(client)
        return False

    def settle(self) -> None:
        """Wait until all replicas are in sync, each node leads what it is preferred for, and clients are served."""
        self._until(self._is_settled, "nodes in sync with preferred leaders", SERVED_S)
        self.served(now_us())

    def controller(self) -> int:
        """Return the index of the node that is the active controller."""

        def found() -> int:
            with protocol.Client(self.cluster.address) as client:
                return max(0, active_controller(client))

        return self.cluster.wait(found, "an active controller") - 1

    # --- a round

    def round(self, kind: str) -> Round:
        """Cause a failure, wait until clients are served, and repair it."""
        self.settle()
        for writer in self.writers:
            writer.begin()
        self._pause(BEFORE_S)
        if kind == "rolling":
            return self._rolling()
        controller = self.controller()
        victim = self._victim(kind, controller)
        brokers = self._brokers(kind, victim)
        led = self._led(victim, brokers)
        began_us = now_us()
        others = [each for each in range(len(self.cluster.nodes)) if each != victim]
        watchers = [Watcher(self._address(each), TOPIC, brokers, began_us) for each in others]
        try:
            if kind != "cut":
                for watcher in watchers:
                    watcher.start()
            self._fail(kind, victim, controller, brokers)
            if kind == "cut":
                began_us = now_us()
            sent_us = began_us + (int(CUT_TAKES_S * 1e6) if kind == "cut" else 0)
            self._await(kind, brokers, sent_us)
            recovered_us = now_us()
            if kind != "cut":
                self._until(lambda: all(watcher.leaders_ms for watcher in watchers), "other leaders in the metadata")
        finally:
            for watcher in watchers:
                watcher.over.set()
            self._repair(kind, victim, controller, brokers)
        self._pause(AFTER_S)
        return self._round(kind, victim, led, Span(began_us, sent_us, recovered_us), watchers)

    def _pause(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left_s := deadline - time.monotonic()) > 0:
            self._go_on()
            time.sleep(min(left_s, 0.1))

    def _address(self, number: int) -> tuple[str, int]:
        return self.cluster.nodes[number].host, self.cluster.nodes[number].port

    def _victim(self, kind: str, controller: int) -> int:
        """The number of the node."""
        return controller if kind in _OF_CONTROLLERS else (controller + 1) % len(self.cluster.nodes)

    def _brokers(self, kind: str, victim: int) -> list[int]:
        """The affected brokers: all of a node, its first one, which has the controller, or its last one."""
        found = self.cluster.broker_ids(victim)
        if kind in _OF_CONTROLLERS:
            return found[:1]
        return found[-1:] if kind in _OF_PROCESSES else found

    def _led(self, victim: int, brokers: Collection[int]) -> set[int]:
        partitions = self.cluster.seen(victim, TOPIC).partitions
        return {number for number, each in partitions.items() if each.leader in brokers}

    def _other(self, victim: int, controller: int) -> int:
        """A follower that is not the active controller."""
        return next(each for each in range(len(self.cluster.nodes)) if each not in (victim, controller))

    def _fail(self, kind: str, victim: int, controller: int, brokers: Sequence[int]) -> None:
        if kind in _OF_PROCESSES:
            number = signal.SIGSTOP if kind == "freeze" else signal.SIGKILL
            for each in brokers:
                os.kill(self.cluster.broker_pid(each), number)
        elif kind == "cut":
            assert self.cluster.network is not None
            self.cluster.network.cut(victim, self._other(victim, controller))
        else:
            self._stop(victim)

    def _stop(self, number: int) -> None:
        node = self.cluster.nodes[number]
        if node.stop() != 0:
            raise TargetError(f"{self.cluster.name}: node {number + 1} did not stop in order: {node.tail()}")

    def _restart(self, number: int) -> None:
        self._stop(number)
        self.cluster.nodes[number].restart()

    def _is_in_sync(self) -> bool:
        if not self.cluster.is_complete():
            return False
        return all(self.cluster.is_in_sync(topic, partitions) for topic, partitions in self._topics.items())

    def _await(self, kind: str, brokers: Sequence[int], sent_us: int) -> None:
        """Wait until all clients are served. Clients of a frozen process may wait for it until their own timeouts: it
        continues after `freeze_s` if it still exists.
        """
        if kind != "freeze":
            self.served(sent_us)
            return
        with suppress(TargetError):
            self.served(sent_us, self.freeze_s)
        self._thaw(brokers)
        self.served(sent_us)

    def _thaw(self, brokers: Sequence[int]) -> None:
        """Let frozen brokers continue. The parent of a shard has killed it and starts another one."""
        with suppress(ProcessLookupError, KeyError):
            for each in brokers:
                os.kill(self.cluster.broker_pid(each), signal.SIGCONT)

    def _repair(self, kind: str, victim: int, controller: int, brokers: Sequence[int]) -> None:
        node = self.cluster.nodes[victim]
        if kind == "cut":
            assert self.cluster.network is not None
            other = self._other(victim, controller)
            self.cluster.network.heal(victim, other)
            # Other incarnations, as below, because these two would give each other more time from now on.
            for number in (victim, other):
                self._until(self._is_in_sync, "replicas in sync")
                self._restart(number)
            return
        if kind == "freeze":
            self._thaw(brokers)
        if kind in _OF_PROCESSES and self.cluster.spec.shards == 1:
            # Another incarnation after a freeze, because this one would be given more time from now on.
            node.kill()
        if not node.alive():
            node.restart()

    def _rolling(self) -> Round:
        began_us = now_us()
        for number in range(len(self.cluster.nodes)):
            self._restart(number)
            self._until(self._is_in_sync, "replicas in sync")
        end_us = now_us()
        self.served(end_us)
        self._pause(AFTER_S)
        return self._round("rolling", -1, set(), Span(began_us, began_us, end_us), ())

    def _round(self, kind: str, victim: int, led: Collection[int], span: Span, watchers: Sequence[Watcher]) -> Round:
        seen = {}
        began_us, sent_us, end_us = span
        every = range(PARTITIONS)
        for writer in self.writers:
            records = writer.acked()
            during = [each for each in records if each.acked_us >= began_us]
            seen[writer.client] = Seen(
                gap_ms(records, led, began_us, sent_us) if led else silence_ms(during, every),
                silence_ms(during, set(every) - set(led)),
                latencies_ms(records, began_us - BEFORE_S * 1e6, began_us - 0.1e6),
                latencies_ms(records, began_us, end_us),
                latencies_ms(records, end_us, end_us + AFTER_S * 1e6),
            )
        leaders = [each.leaders_ms for each in watchers if each.leaders_ms is not None]
        controllers = [each.controller_ms for each in watchers if each.controller_ms is not None]
        return Round(
            kind,
            seen,
            max(leaders, default=None),
            max(controllers, default=None) if kind in _OF_CONTROLLERS else None,
            self._phases(victim, began_us) if watchers and self.cluster.spec.kind == "ours" else {},
        )

    def _phases(self, victim: int, began_us: int) -> dict[str, float]:
        found: dict[str, float] = {}
        for number, node in enumerate(self.cluster.nodes):
            if number != victim:
                for phase, at_ms in logged_ms(node.stderr(), began_us).items():
                    found[phase] = min(found.get(phase, at_ms), at_ms)
        return dict(sorted(found.items(), key=lambda each: each[1]))
