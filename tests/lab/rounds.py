"""Rounds of faults of a cluster on lab hosts: a fault begins while clients work, it is healed, and all clients
continue.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from broker_cy.launch.processes import Child
from tests.lab.faults import Fault, begin, heal
from tests.lab.hosts import Host, Lab
from tests.lab.work import LabWork
from tests.support.cluster import DISTURBED, ClusterNode, running

NODES: Final = 3
BROKER_PORT, CONTROLLER_PORT = 9092, 9093
# A partition without an acknowledgement for longer than this when the fault is healed was waiting for the healing.
WAITING_S: Final = 0.5
SETTINGS: Final = {
    **DISTURBED,
    # A broker whose clock is behind rightly refuses records too far in its future (by default an hour).
    "log.message.timestamp.after.max.ms": "172800000",
}


class LabNode(ClusterNode):
    """A node with both roles on a host of the lab."""

    def __init__(self, directory: Path, host: Host, settings: Mapping[str, str]) -> None:
        super().__init__(directory, host.number, "broker,controller", settings)
        self.host = host.address
        self.port, self.controller_port = BROKER_PORT, CONTROLLER_PORT
        self.data_dir = host.disk.path / "data"
        self.wrapper = host.wrapper

    def ready(self, child: Child) -> bool:
        return f"{self.host}:{self.port}" in child.stdout().rpartition("\n")[0]


@dataclass(frozen=True)
class Round:
    """The times of one round, in seconds.

    `gap_s` is the longest time that a partition went without an acknowledgement, `waited` whether one was still
    waiting when the fault was healed, `went_on_s` how long after that all clients had made progress, and `in_sync_s`
    how long after that all replicas were in sync.
    """

    fault: Fault
    length_s: float
    gap_s: float
    waited: bool
    went_on_s: float
    in_sync_s: float
    records: int
    transactions: tuple[int, int]

    def __str__(self) -> str:
        ended, committed = self.transactions
        until = ", ended by the healing" if self.waited else ""
        return (
            f"healed after {self.length_s:.2f} s; longest gap {self.gap_s:.2f} s{until}; all went on after "
            f"{self.went_on_s:.2f} s, in sync after {self.in_sync_s:.2f} s; {self.records} records, "
            f"{committed} of {ended} transactions committed"
        )


class Rounds:
    """A cluster on lab hosts with its clients."""

    def __init__(self, lab: Lab, nodes: list[LabNode], producer: Mapping[str, str | int] | None = None) -> None:
        self.lab = lab
        self.nodes = nodes
        self.work = LabWork(nodes, producer)
        self.work.go_on()
        self.work.in_sync()
        self._wait = threading.Event()

    def disturb(self, number: int, fault: Fault) -> Round:
        """Begin a fault, heal it, and wait until all clients have made progress and all replicas are in sync."""
        work = self.work
        victim = work.victim(fault.role, fault.other)
        also = ", active controller" if victim is work.controller() else ""
        print(f"{number} {fault} (node {victim.node_id}{also})", flush=True)
        sent = work.steady.sent
        work.resume()
        work.disturbed = {victim.node_id}
        work.steady.gap_s = dict.fromkeys(work.inputs, 0.0)
        begin(fault, self.lab, victim)
        # A full disk takes a while.
        began_s = time.monotonic()
        try:
            while time.monotonic() < began_s + fault.length_s:
                work.check_clients()
                self._wait.wait(0.05)
            healed_s = time.monotonic()
            waited = healed_s - min(work.steady.last_ack_s.values()) > WAITING_S
        finally:
            heal(fault, self.lab, victim)
        work.go_on()
        went_on_s = time.monotonic()
        work.disturbed = set()
        in_sync_s = work.in_sync()
        return Round(
            fault,
            healed_s - began_s,
            max(work.steady.gap_s.values()),
            waited,
            went_on_s - healed_s,
            in_sync_s,
            work.steady.sent - sent,
            work.transactions(),
        )

    def round(self, number: int, fault: Fault) -> Round:
        """One fault, and the check of its history. Raises AssertionError with the checker's findings."""
        found = self.disturb(number, fault)
        since_s = time.monotonic()
        self.work.settle()
        findings = self.work.judge()
        print(f"    {found}; judged after {time.monotonic() - since_s:.2f} s", flush=True)
        assert not findings, "\n".join(map(str, findings[:20]))
        return found

    def finish(self) -> None:
        """Read everything again and check it."""
        findings = self.work.judge_all()
        assert not findings, "\n".join(map(str, findings[:20]))
        for node in self.nodes:
            assert "Traceback" not in node.stderr(), node.stderr()


@contextmanager
def on_hosts(
    directory: Path, settings: Mapping[str, str] | None = None, producer: Mapping[str, str | int] | None = None
) -> Iterator[Rounds]:
    """A cluster on lab hosts. The caller is in a separate network namespace."""
    lab = Lab(directory, NODES)
    try:
        nodes = [
            LabNode(directory / f"node-{host.number}", host, {**SETTINGS, **(settings or {})})
            for host in lab.hosts.values()
        ]
        with running(nodes):
            rounds = Rounds(lab, nodes, producer)
            try:
                yield rounds
            finally:
                rounds.work.stop()
    finally:
        lab.close()


def table(rounds: Sequence[Round]) -> str:
    """The median and the maximum for each kind of fault, and for each kind of cut, in seconds."""
    groups: dict[str, list[Round]] = {}
    for each in rounds:
        groups.setdefault(each.fault.kind, []).append(each)
        if each.fault.kind in ("cut", "oneway"):
            groups.setdefault(f"{each.fault.kind} {each.fault.detail}", []).append(each)
    lines = [f"{'fault':<24} {'rounds':>6} {'gap p50':>8} {'max':>7} {'waited':>7} {'went on p50':>12} {'max':>7}"]
    for name, found in sorted(groups.items()):
        gaps, went_on = [each.gap_s for each in found], [each.went_on_s for each in found]
        waited = sum(each.waited for each in found)
        lines.append(
            f"{name:<24} {len(found):>6} {median(gaps):>8.2f} {max(gaps):>7.2f} {waited:>7} "
            f"{median(went_on):>12.2f} {max(went_on):>7.2f}"
        )
    return "\n".join(lines)
