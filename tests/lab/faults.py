"""The kinds of faults; how a fault is drawn, begun and healed."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.lab.hosts import CLIENTS, Host, Lab
from tests.support.cluster import ClusterNode

KINDS: Final = ("kill", "freeze", "cut", "oneway", "slow", "full", "clock")
ROLES: Final = ("leader", "follower", "controller", "members", "copier")
"""The target of a fault: the leader of the first partition, another broker, the active controller, or the coordinator
of the group `members` or of the transactions of the first copier.
"""
# The extent of a cut: the host from all; the host from the other nodes, not from the clients; the host from one other
# node.
CUTS: Final = ("host", "nodes", "pair")
# The direction of a cut: from the host to all or from all to the host, and the same with one other node.
ONE_WAY: Final = ("sends", "receives", "sends to one", "receives from one")
RATES_KBIT: Final = (128, 512, 2000)
# Below the expiry times of records and producer ids, for which a broker rightly uses its clock.
JUMPS_S: Final = (-43_200.0, -3_600.0, -2.0, 2.0, 3_600.0, 43_200.0)
LENGTHS_S: Final = (0.5, 6.0)


@dataclass(frozen=True)
class Fault:
    """One fault. `other` selects the second node of a fault between two nodes."""

    kind: str
    role: str
    length_s: float
    detail: str
    other: int

    def __str__(self) -> str:
        return " ".join(each for each in (self.kind, self.detail, "of", self.role) if each)


def draw(seed: int, number: int, kinds: Sequence[str], lengths_s: tuple[float, float] = LENGTHS_S) -> Fault:
    """Draw the fault of one round. Each block of len(kinds) rounds has each kind once."""
    block, place = divmod(number, len(kinds))
    order = list(kinds)
    random.Random(f"{seed}/{block}").shuffle(order)
    choose = random.Random(f"{seed}:{number}")
    kind = order[place]
    details: dict[str, Sequence[object]] = {
        "cut": CUTS,
        "oneway": ONE_WAY,
        "slow": [f"{rate} kbit/s" for rate in RATES_KBIT],
        "clock": [f"{jump_s:+g} s" for jump_s in JUMPS_S],
    }
    detail = str(choose.choice(details.get(kind, [""])))
    return Fault(kind, choose.choice(ROLES), round(choose.uniform(*lengths_s), 2), detail, choose.randrange(2))


def begin(fault: Fault, lab: Lab, node: ClusterNode) -> None:
    """Begin a fault on the host of `node`."""
    host = lab.hosts[node.node_id]
    others = [number for number in lab.hosts if number != host.number]
    one = others[fault.other]
    if fault.kind == "kill":
        node.kill()
    elif fault.kind == "freeze":
        os.kill(node.pid, signal.SIGSTOP)
    elif fault.kind == "cut" and fault.detail == "host":
        lab.unplug(host.number)
    elif fault.kind == "cut":
        for other in others if fault.detail == "nodes" else [one]:
            lab.drop(host.number, other)
            lab.drop(other, host.number)
    elif fault.kind == "oneway":
        for other in [one] if fault.detail.endswith("one") else [*others, CLIENTS]:
            if fault.detail.startswith("sends"):
                lab.drop(host.number, other)
            else:
                lab.drop(other, host.number)
    elif fault.kind == "slow":
        lab.slow(host.number, int(fault.detail.split()[0]))
    elif fault.kind == "full":
        host.disk.fill()
    else:
        assert fault.kind == "clock"
        host.clock.shift(float(fault.detail.split()[0]))


def heal(fault: Fault, lab: Lab, node: ClusterNode) -> None:
    """End the fault that `begin` began."""
    host: Host = lab.hosts[node.node_id]
    if fault.kind == "kill":
        node.restart()
    elif fault.kind == "freeze":
        os.kill(node.pid, signal.SIGCONT)
    elif fault.kind == "cut" and fault.detail == "host":
        lab.plug(host.number)
    elif fault.kind in ("cut", "oneway"):
        lab.pass_all()
    elif fault.kind == "slow":
        lab.full_speed(host.number)
    elif fault.kind == "full":
        host.disk.make_room()
    else:
        host.clock.shift(0.0)
