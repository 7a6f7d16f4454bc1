"""What a seed decides before the world begins: machines, clients, and faults with their times. A plan is data, so that
a failing one can be made smaller and kept (`python -m tests.sim.world`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from tests.sim.world.draws import Draws, Trace

# Virtual time with faults, and how many there are at most.
DURATION_US_MAX = 6_000_000
FAULTS_MAX = 12
ADMIN = "admin"


@dataclass(frozen=True)
class Fault:
    """`kind` is a function of tests.sim.world.faults; `us` its duration, and `amount` whatever the kind needs."""

    at_us: int
    kind: str
    host: str
    us: int = 0
    amount: int = 0


@dataclass(frozen=True)
class Plan:
    """One world."""

    seed: int
    hosts: tuple[str, ...]
    # Rates of the machines' clocks, in millionths above or below that of the world.
    drifts_ppm: tuple[int, ...]
    # Name of each client, of which the letters say its kind, and its broker.
    clients: tuple[tuple[str, str], ...]
    faults: tuple[Fault, ...]
    duration_us: int
    # Every record is on disk before it is acknowledged or read: power may be lost without losing any.
    is_synced: bool
    # How long the clients go on after the faults, when everything has to be in time.
    calm_us: int = 0

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Plan:
        """Raises ValueError, KeyError and TypeError for anything else than the result of to_json."""
        found: dict[str, Any] = json.loads(text)
        found["hosts"], found["drifts_ppm"] = tuple(found["hosts"]), tuple(found["drifts_ppm"])
        found["clients"] = tuple((name, host) for name, host in found["clients"])
        found["faults"] = tuple(Fault(**each) for each in found["faults"])
        return Plan(**found)

    def without_faults(self, dropped: set[int]) -> Plan:
        return replace(self, faults=tuple(each for at, each in enumerate(self.faults) if at not in dropped))

    @property
    def workers(self) -> tuple[tuple[str, str], ...]:
        """The clients other than administrators."""
        return tuple(each for each in self.clients if not each[0].startswith(ADMIN))

    def without_workers(self, dropped: set[int]) -> Plan:
        left = {each for at, each in enumerate(self.workers) if at not in dropped}
        return replace(self, clients=tuple(each for each in self.clients if each[0].startswith(ADMIN) or each in left))


# Kinds of faults by what the world guarantees: a process may always end; power, and what a disk refuses, only where
# everything is synced.
ENDS = ("kill", "kill_in_call", "stop")
LINKS = ("cut", "cut_up", "cut_down", "loss", "delay")
ALWAYS = (*ENDS, "pause", *LINKS, "set_clock")
ENDING = ("kill_ending", "refuse_markers")
DISKS = ("break_disk", "break_disk", "break_disk")
SYNCED_ONLY = ("lose_power", "lose_power_in_call", "break_disk", "break_ending")


@dataclass(frozen=True)
class Profile:
    """What the plans of a profile are drawn from. A kind that is named twice is drawn twice as often."""

    clients: tuple[str, ...]
    always: tuple[str, ...] = ALWAYS
    synced_only: tuple[str, ...] = SYNCED_ONLY
    # Probabilities that everything is synced, and that there is one machine.
    synced: float = 0.5
    alone: float = 0.85
    calm_us: tuple[int, ...] = (0,)


# The world as a whole, and parts of it that reach the rare states of one part of the broker in fewer seeds.
EVERYTHING = "everything"
PROFILES = {
    EVERYTHING: Profile(
        (*2 * ("plain", "txn", "reader", "member"), "refused", "static", "operator", "fencer"), (*ALWAYS, *ENDING)
    ),
    "storage": Profile(("plain", "plain", "refused", "txn"), ENDS, synced=1.0, alone=1.0),
    "groups": Profile(
        ("member", "member", "member", "static", "plain", "operator"),
        (*ENDS, "pause", *LINKS),
        ("lose_power", *DISKS),
        alone=1.0,
        calm_us=(0, 0, 12_000_000),
    ),
    "transactions": Profile(
        ("txn", "txn", "txn", "reader", "fencer"),
        (*ENDS, "pause", *LINKS, *ENDING, *ENDING),
        ("lose_power", "break_ending", *DISKS),
        alone=1.0,
        calm_us=(0, 0, 8_000_000),
    ),
    "clients": Profile(("plain", "refused", "txn", "reader", "member"), ("pause", *LINKS), (), synced=0.0, alone=1.0),
}


def plan_of(seed: int, profile: str = EVERYTHING) -> Plan:
    """The plan of a seed."""
    content = PROFILES[profile]
    draw = Draws(seed, "plan", Trace())
    is_synced = draw.chance(content.synced)
    hosts = ("broker1",) if draw.chance(content.alone) else ("broker1", "broker2")
    clients = []
    for host in hosts:
        clients.append((f"{ADMIN}-{host}", host))
        for number in range(draw.randint(3, 8)):
            clients.append((f"{draw.choice(content.clients)}{number}-{host}", host))
    duration_us = draw.randint(500_000, DURATION_US_MAX)
    kinds = content.always + (content.synced_only if is_synced else ())
    faults = [_fault(draw, kinds, hosts, duration_us) for _ in range(draw.randint(0, FAULTS_MAX))]
    return Plan(
        seed,
        hosts,
        tuple(draw.randint(-300, 300) for _ in hosts),
        tuple(clients),
        tuple(sorted(faults, key=lambda each: each.at_us)),
        duration_us,
        is_synced,
        draw.choice(content.calm_us),
    )


def _fault(draw: Draws, kinds: tuple[str, ...], hosts: tuple[str, ...], duration_us: int) -> Fault:
    kind = draw.choice(kinds)
    at_us = draw.randint(300_000, duration_us)
    host = draw.choice(hosts)
    if kind in ("kill_in_call", "lose_power_in_call"):
        return Fault(at_us, kind, host, amount=draw.choice([1, 2, 3, 5, 8, 13, 21, draw.randint(1, 60)]))
    if kind == "set_clock":
        # All together stay below an hour, beyond which brokers refuse timestamps of clients.
        return Fault(at_us, kind, host, amount=draw.choice([-200_000, -1_000, 1_000, 60_000, 200_000]))
    if kind == "loss":
        return Fault(at_us, kind, host, draw.randint(100_000, 3_000_000), draw.choice([1, 10, 30]))
    return Fault(at_us, kind, host, draw.choice([20_000, 300_000, 2_000_000, draw.randint(1, 8_000_000)]))
