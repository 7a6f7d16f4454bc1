"""The plans of worlds with two clusters: the second one mirrors the first one."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tests.sim.world.cluster import TARGET
from tests.sim.world.draws import Draws, Trace
from tests.sim.world.plan import (
    ADMIN,
    CLIENTS,
    CLUSTER,
    EVERYBODY,
    IN_CLUSTER,
    KILLS,
    LINKS,
    NODES,
    ONE_NODE,
    OTHER_CLUSTER,
    POWER,
    Fault,
    Plan,
    fault_of,
)

# How many nodes the two clusters have.
SIZES = ((3, 1), (3, 1), (1, 3), (1, 3), (3, 3), (1, 1))
CLIENT_KINDS = ("plain", "plain", "txn", "txn", "txn", "reader", "refused")
AMOUNTS = (EVERYBODY, NODES, ONE_NODE, CLIENTS, *3 * (OTHER_CLUSTER,))
AMOUNTS_OF_PROCESSES = (EVERYBODY, NODES, ONE_NODE, OTHER_CLUSTER)
OF_PROCESSES = (*3 * ("kill",), "stop", "stop", "pause", "pause", *LINKS)
FAULTS_MAX, COPY_FAULTS_MAX, LATER_MAX = 10, 6, 4
DURATION_US = 2_000_000, 6_000_000
LATER_US = 2_000_000


class _Hosts(NamedTuple):
    sources: tuple[str, ...]
    targets: tuple[str, ...]

    @property
    def every(self) -> tuple[str, ...]:
        return (*self.sources, *self.targets)


def _hosts(draw: Draws) -> _Hosts:
    here, there = draw.choice(SIZES)
    return _Hosts(
        tuple(f"broker{number}" for number in range(1, 1 + here)),
        tuple(f"{TARGET}{number}" for number in range(1, 1 + there)),
    )


class _Faults:
    """The possible faults of the brokers. As in other clusters, without syncs only one node loses its power, others
    have its records, and no process is killed.
    """

    def __init__(self, draw: Draws, hosts: _Hosts, *, is_synced: bool) -> None:
        self._draw, self._hosts, self._is_synced = draw, hosts, is_synced
        several = [host for part in hosts if len(part) > 1 for host in part]
        self._unlucky = draw.choice(several) if several else ""
        loses_power = draw.chance(0.4) and (is_synced or bool(several))
        self._kinds = IN_CLUSTER + (POWER if loses_power else ()) + (KILLS if is_synced or not loses_power else ())

    def some(self, count: int, until_us: int) -> list[Fault]:
        found = []
        for _ in range(count):
            fault = fault_of(self._draw, self._kinds, self._hosts.every, until_us)
            if fault.kind in LINKS and fault.kind != "loss":
                fault = replace(fault, amount=self._draw.choice(AMOUNTS))
            if fault.kind in POWER and not self._is_synced:
                fault = replace(fault, host=self._unlucky)
            found.append(fault)
        if self._is_synced and self._draw.chance(0.4):
            found.append(fault_of(self._draw, ("break_disk",), self._hosts.every, until_us))
        return found


def _ordered(faults: list[Fault]) -> tuple[Fault, ...]:
    return tuple(sorted(faults, key=lambda each: each.at_us))


def _clients(draw: Draws) -> list[tuple[str, str]]:
    """Those of the first cluster, and the administrators."""
    kinds = ["plain", "txn", *(draw.choice(CLIENT_KINDS) for _ in range(draw.randint(0, 2)))]
    return [
        (f"{ADMIN}source-{CLUSTER}", CLUSTER),
        *((f"{kind}{number}-{CLUSTER}", CLUSTER) for number, kind in enumerate(kinds)),
    ]


def link_plan(seed: int) -> Plan:
    """A cluster whose topics another one mirrors, promotes in most of the worlds, and mirrors back in some of these."""
    draw = Draws(seed, "plan", Trace())
    hosts, clients = _hosts(draw), _clients(draw)
    clients.append((f"{ADMIN}mirror-{TARGET}", TARGET))
    clients += [(f"mirrorreader{number}-{TARGET}", TARGET) for number in range(draw.randint(1, 2))]
    clients.append((f"mirrorwriter-{TARGET}", TARGET))
    is_synced, duration_us = draw.chance(0.4), draw.randint(*DURATION_US)
    faults = _Faults(draw, hosts, is_synced=is_synced)
    disturbed = faults.some(draw.randint(0, FAULTS_MAX), duration_us)
    promotes = draw.chance(0.6)
    reverses = promotes and draw.chance(0.5)
    plan = Plan(
        seed,
        hosts.every,
        tuple(draw.randint(-300, 300) for _ in hosts.every),
        tuple(clients),
        _ordered(disturbed),
        duration_us,
        is_synced,
        is_cluster=True,
        targets=hosts.targets,
    )
    if not promotes:
        return plan
    later = faults.some(draw.randint(0, LATER_MAX), LATER_US) if reverses else []
    return replace(plan, promote_us=draw.randint(1_000_000, duration_us), reverses=reverses, later=_ordered(later))


def copy_plan(seed: int) -> Plan:
    """A cluster from which one or two processes copy into another one."""
    draw = Draws(seed, "plan", Trace())
    hosts, clients = _hosts(draw), _clients(draw)
    clients.append((f"committer-{CLUSTER}", CLUSTER))
    copiers = tuple(f"copier{number}" for number in range(1, 1 + draw.choice([1, 2, 2])))
    is_synced, duration_us = draw.chance(0.4), draw.randint(*DURATION_US)
    disturbed = _Faults(draw, hosts, is_synced=is_synced).some(draw.randint(0, COPY_FAULTS_MAX), duration_us)
    for _ in range(draw.randint(0, COPY_FAULTS_MAX)):
        fault = fault_of(draw, OF_PROCESSES, copiers, duration_us)
        if fault.kind in LINKS and fault.kind != "loss":
            fault = replace(fault, amount=draw.choice(AMOUNTS_OF_PROCESSES))
        disturbed.append(fault)
    return Plan(
        seed,
        hosts.every,
        tuple(draw.randint(-300, 300) for _ in hosts.every),
        tuple(clients),
        _ordered(disturbed),
        duration_us,
        is_synced,
        is_cluster=True,
        targets=hosts.targets,
        copiers=copiers,
    )
