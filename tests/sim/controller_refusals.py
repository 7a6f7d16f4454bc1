"""Brokers that refuse connections, or seem to, in the world of the controller: the reports of each node, and the
brokers that may be fenced or replaced because of them. This is a second implementation of the rules, based on the
reports and heartbeats.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from broker_cy.controller.refused_connections import NoteCuts, NoteRefusedConnections
from broker_cy.controller.registration import RegisterBroker
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.fence_reasons import FenceReason
from tests.broker_cy.controller.acts import BROKERS, HOSTS, Act, request_of
from tests.broker_cy.controller.brokers import CLUSTER_ID

if TYPE_CHECKING:
    from tests.sim.controller_world import World

# The node that runs the controller; broker 4 is on its host.
CONTROLLER = 1
# The time for which a report counts, and the time for which the controller must be refused if no other node can report.
SAID_MS, ALONE_MS = 3_000, 50
STEPS = 7


@dataclass
class Said:
    """The reports about one incarnation since its last heartbeat: the first and last time at which each node reported a
    refused connection, and whether the controller's connection has ended.
    """

    first_ms: dict[int, int] = field(default_factory=dict)
    last_ms: dict[int, int] = field(default_factory=dict)
    is_cut: bool = False

    def say(self, observer: int, now_ms: int) -> None:
        if not self.counts(observer, now_ms):
            self.first_ms[observer] = now_ms
        self.last_ms[observer] = now_ms

    def counts(self, observer: int, now_ms: int) -> bool:
        return observer in self.last_ms and now_ms - self.last_ms[observer] <= SAID_MS


class Refusals:
    """`story` makes random events happen to one broker; `heard` follows all operations of the world."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._draw = Random(f"refusals {seed}")
        self._said: dict[tuple[int, int], Said] = {}
        self._incarnation = 8_000

    def is_due(self, chance: float) -> bool:
        return self._draw.random() < chance

    def forget(self) -> None:
        """Drop all reports: another controller has not received them."""
        self._said.clear()

    def heard(self, act: Act, reply: Any, epoch: int) -> None:
        """An operation about the broker `act.args[0]`, of this epoch before it, was accepted or refused."""
        if isinstance(reply, str):
            return
        if act.kind == "beat":
            self._said.pop((act.args[0], epoch), None)
        elif act.kind == "register":
            for key in [key for key in self._said if key[0] == act.args[0]]:
                del self._said[key]

    def story(self) -> None:
        """An active broker refuses connections of some nodes, sends heartbeats, has a successor: some of these events,
        in any order.
        """
        world, draw = self._world, self._draw
        broker_id = draw.choice(BROKERS[1:])
        for _ in range(draw.randint(2, STEPS)):
            broker = world.cluster.controller.state.brokers.get(broker_id)
            if broker is None or broker.fenced:
                return
            match draw.choice(["controller", "other", "other", "beat", "time", "cut", "cut", "replace"]):
                case "controller":
                    self._refuse(CONTROLLER, broker_id, broker.epoch)
                case "other":
                    self._refuse(draw.choice(BROKERS), broker_id, broker.epoch)
                case "beat":
                    world.beat(broker_id)
                case "time":
                    world.cluster.now_ms += draw.choice([20, 60, 1_000, 3_500])
                case "cut":
                    self._cut(broker_id, broker.epoch - draw.choice([0, 0, 1]))
                case "replace":
                    self._replace(broker_id)

    def _refuse(self, observer: int, broker_id: int, epoch: int) -> None:
        world, now_ms = self._world, self._world.cluster.now_ms
        brokers = world.cluster.controller.state.brokers
        if observer == broker_id or observer not in brokers:
            return
        is_old = self._draw.random() < 0.2
        strangers = frozenset(each for each in BROKERS if self._draw.random() < 0.3)
        if not is_old:
            self._said.setdefault((broker_id, epoch), Said()).say(observer, now_ms)
        expected = not is_old and self._is_gone(
            broker_id, epoch, (each.broker_id for each in brokers.values() if each.is_active), strangers
        )
        operation = NoteRefusedConnections(
            observer,
            None if observer == CONTROLLER else brokers[observer].epoch,
            {broker_id: epoch - is_old},
            strangers,
        )
        gone = world.operate(Act("refuse", (broker_id, observer, sorted(strangers), is_old)), operation)
        if gone and not isinstance(gone, str):
            world.fence(tuple(gone), FenceReason.REFUSES_CONNECTIONS, gone)
        found = world.cluster.controller.state.brokers[broker_id]
        assert found.fenced is expected, f"broker {broker_id} is {'' if found.fenced else 'not '}fenced"
        world.counts["refused"] += 1
        world.counts["refused for good"] += expected

    def _is_gone(self, broker_id: int, epoch: int, active: Iterable[int], strangers: frozenset[int]) -> bool:
        said, now_ms = self._said[broker_id, epoch], self._world.cluster.now_ms
        # The host of an unregistered broker is unknown.
        known = self._world.cluster.controller.state.brokers
        if CONTROLLER not in known or not said.counts(CONTROLLER, now_ms):
            return False
        away = [each for each in BROKERS if each in known and HOSTS[each] != HOSTS[CONTROLLER]]
        if any(said.counts(each, now_ms) for each in away):
            return True
        could_say = set(active) & set(away) - strangers - {broker_id}
        return not could_say and said.last_ms[CONTROLLER] - said.first_ms[CONTROLLER] >= ALONE_MS

    def _cut(self, broker_id: int, epoch: int) -> None:
        self._world.operate(Act("cut", (broker_id, epoch)), NoteCuts({broker_id: epoch}))
        self._said.setdefault((broker_id, epoch), Said()).is_cut = True

    def _replace(self, broker_id: int) -> None:
        """Another process registers in place of the broker, with the same addresses or others."""
        world, heartbeats = self._world, self._world.cluster.controller.heartbeats
        broker = world.cluster.controller.state.brokers[broker_id]
        self._incarnation += 1
        act = Act("register", (broker_id, self._incarnation, self._draw.random() < 0.5))
        request, version = request_of(act, world.cluster.image, CLUSTER_ID)
        request.listeners[0].port += self._draw.random() < 0.3
        # A process with other addresses may have registered before.
        moves = any(broker.listeners[each.name].port != each.port for each in request.listeners)
        said = self._said.get((broker_id, broker.epoch))
        is_cut = said is not None and said.is_cut
        expected = not heartbeats.has_session(broker, world.cluster.now_ms) or (is_cut and not moves)
        reply = world.operate(act, RegisterBroker(request, version, CLUSTER_ID))
        is_taken = reply != ErrorCode.DUPLICATE_BROKER_REGISTRATION.name
        assert is_taken is expected, f"a successor of broker {broker_id}: {reply}"
        world.counts["replaced"] += is_cut and expected
