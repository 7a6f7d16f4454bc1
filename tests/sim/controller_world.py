"""A controller with four brokers and impatient operators, and no network: every act takes effect immediately.

The senders know the committed state, and the controller also validates against uncommitted changes, so many requests
are stale. Layers are committed or dropped at random; a crash builds another controller from the log. After every
operation `controller_checks` compares the states before and after it.
"""

from __future__ import annotations

from collections import Counter, deque
from random import Random
from typing import Any
from unittest.mock import patch

from broker_cy.controller import elections
from broker_cy.controller.broker_states import FenceBrokers, ReplaceLeaders, Withdrawal
from broker_cy.controller.elections import BalanceLeaders, ElectUnclean
from broker_cy.controller.operation import Operation
from broker_cy.controller.rules import directory_of, has_online_directory
from broker_cy.core.errors import KafkaError
from broker_cy.events.security_changes import security_changes
from broker_cy.metadata.fence_reasons import FenceReason
from broker_cy.metadata.image import NO_LEADER
from broker_cy.metadata.partition_index import is_reassigning
from tests.broker_cy.controller.acts import BROKERS, Act, Draw, operation_of, request_of
from tests.broker_cy.controller.brokers import CLUSTER_ID, Brokers
from tests.sim.controller_authors import Changes
from tests.sim.controller_checks import Checks, View
from tests.sim.controller_quotas import Quotas
from tests.sim.controller_refusals import Refusals
from tests.sim.controller_tokens import SETTINGS, TokenUsers
from tests.support.images import same_content

STORY = 30
# The events other than requests, and their weights.
EVENTS = {
    "commit": 40,
    "alive": 10,
    "join": 8,
    "sync": 12,
    "time": 6,
    "abandon": 3,
    "crash": 2,
    "balance": 3,
    "unclean": 3,
    "fence": 3,
}
REQUESTS = 60
# How often a broker is fenced because it stands still, of each step.
SILENCES = 0.01
# The same, because it refuses connections, or seems to.
REFUSALS = 0.05
# How often users of delegation tokens act.
TOKENS = 0.02
# How often an operator changes ACLs or users.
RIGHTS = 0.1
# How often the only candidate of a partition flaps.
FLAPS = 0.02
# How often an operator changes quotas of clients.
QUOTAS = 0.08


class World:
    """`run` raises AssertionError when a check fails; `story` are the last steps."""

    def __init__(self, seed: int) -> None:
        self._random = Random(f"controller {seed}")
        self.cluster = Brokers.of(elr=self._random.random() < 0.6, settings=SETTINGS)
        self.cluster.controller.heartbeats.session_timeout_ms = 9_000
        self._draw = Draw(self._random)
        # Separate draws, so that all others stay the same.
        self._silences = Random(f"silences {seed}")
        self._flaps = Random(f"flaps {seed}")
        self._replacements = Random(f"replacements {seed}")
        self._kinds = [kind for kind, weight in EVENTS.items() for _ in range(weight)] + ["request"] * REQUESTS
        self._refusals = Refusals(self, seed)
        self._tokens = TokenUsers(self, seed)
        self._rights = Changes(self, seed)
        self._quotas = Quotas(self, seed)
        self.checks = Checks()
        # When each incarnation of a broker was fenced without asking for it, as this controller knows.
        self._fenced_ms: dict[tuple[int, int], list[int]] = {}
        # Those that `Draw` gives are lower.
        self._incarnation = 5_000
        self.trace: deque[str] = deque(maxlen=STORY)
        self.counts: Counter[str] = Counter()

    def story(self) -> str:
        return "\n".join(self.trace)

    def run(self, steps: int) -> None:
        # So few that others act between the parts of a long change.
        with patch.object(elections, "CHANGES_PER_PART", 2):
            self._run(steps)

    def _run(self, steps: int) -> None:
        for broker_id in BROKERS:
            self._request(Act("register", (broker_id, 0, False)))
            self._commit()
            self.beat(broker_id)
            self._commit()
        for _ in range(steps):
            if self._silences.random() < SILENCES:
                self._silence()
            if self._flaps.random() < FLAPS:
                self._flap()
            if self._refusals.is_due(REFUSALS):
                self._refusals.story()
            if self._tokens.is_due(TOKENS):
                self._tokens.story()
            if self._rights.is_due(RIGHTS):
                self._rights.act()
            if self._quotas.is_due(QUOTAS):
                self._quotas.change()
            kind = self._random.choice(self._kinds)
            if kind == "request":
                self._request(self._draw.act(self.cluster.image))
            else:
                self.trace.append(kind)
                getattr(self, f"_{kind}")()
        self._crash()

    def _request(self, act: Act) -> None:
        request, version = request_of(act, self.cluster.image, CLUSTER_ID)
        self.operate(act, operation_of(request, version, CLUSTER_ID, self.cluster.config))

    def operate(self, act: Act, operation: Operation[Any]) -> Any:
        """Do an act and check it; returns the reply, or the name of an error."""
        state = self.cluster.controller.state
        before = View.of(state)
        known = state.brokers.get(act.args[0]) if act.args else None
        try:
            reply: Any = self.cluster.accept(operation)
        except KafkaError as error:
            reply = error.code.name
        self.trace.append(f"{act.kind} {act.args}: {reply}")
        self.counts[act.kind] += 1
        after = View.of(self.cluster.controller.state)
        self.checks.operation(act, operation, reply, before, after)
        self._count(act, before, after)
        self._check_hold_down(act, before, after)
        self._check_candidates(act, reply, after)
        self.checks.index(self.cluster.controller.state)
        self._refusals.heard(act, reply, known.epoch if known is not None else -1)
        return reply

    def beat(self, broker_id: int) -> None:
        """A broker sends a heartbeat."""
        self._request(Act("beat", (broker_id, "run", False, (), None, False)))

    def _check_hold_down(self, act: Act, before: View, after: View) -> None:
        """A live broker is unfenced immediately after its first fencing and later after each further one, unless no
        other broker is active.
        """
        for broker_id, new in after.brokers.items():
            old = before.brokers.get(broker_id)
            if old is None or old.epoch != new.epoch or old.fenced is new.fenced:
                continue
            times = self._fenced_ms.setdefault((broker_id, new.epoch), [])
            if act.kind in ("fence", "refuse") and new.fenced:
                times.append(self.cluster.now_ms)
            elif (
                not new.fenced
                and len(times) > 1
                and any(each.is_active for each in before.brokers.values())
                and not self._gained(broker_id, before, after)
            ):
                self.counts["held down"] += 1
                held_ms = self.cluster.now_ms - times[-1]
                assert held_ms >= min(500 << len(times) - 2, 8_000), (
                    f"broker {broker_id} is back after {held_ms} ms, and was fenced {len(times)} times"
                )

    def _gained(self, broker_id: int, before: View, after: View) -> bool:
        """Whether a partition without a leader has one because the broker came back."""
        return any(
            p.leader == broker_id and before.partitions[key].leader == NO_LEADER for key, p in after.partitions.items()
        )

    def _check_candidates(self, act: Act, reply: Any, after: View) -> None:
        """A broker with heartbeats that could lead a partition without a leader is unfenced, whatever its history."""
        if act.kind != "beat" or act.args[1] != "run" or act.args[2] or isinstance(reply, str):
            return
        broker = after.brokers[act.args[0]]
        if not broker.fenced or reply.should_shut_down or not reply.is_caught_up:
            return
        waiting = [
            p
            for p in after.partitions.values()
            if p.leader == NO_LEADER
            # An eligible leader counts where no replica is in sync (KIP-966).
            and broker.broker_id in (p.isr or p.elr)
            and has_online_directory(broker, directory_of(p, broker.broker_id))
        ]
        assert not waiting, f"broker {broker.broker_id} is held down, and nobody leads {waiting}"

    def _count(self, act: Act, before: View, after: View) -> None:
        """Count what has happened, so that a test can verify that the runs are not idle."""
        self.counts["led"] += any(p.leader >= 0 for p in after.partitions.values())
        for key, new in after.partitions.items():
            old = before.partitions.get(key)
            if old is None or old == new:
                continue
            self.counts["accepted"] += act.kind == "propose"
            self.counts["unclean leader"] += new.leader_recovery_state > old.leader_recovery_state
            ended = is_reassigning(old) and not is_reassigning(new)
            self.counts["cancelled" if act.kind == "reassign" else "ended"] += ended

    def _commit(self) -> None:
        delta = self.cluster.commit()
        events = [] if delta is None else list(security_changes(delta))
        self._rights.committed(events)
        self._quotas.commit(events)
        self._tokens.committed(events)

    def _alive(self) -> None:
        """Most active brokers send a heartbeat."""
        for broker in list(self.cluster.image.brokers.values()):
            if not broker.fenced and self._random.random() < 0.8:
                self.beat(broker.broker_id)

    def _join(self) -> None:
        """A process dies, if there is one, and another one takes its place."""
        broker_id = self._random.choice(BROKERS)
        if self._random.random() < 0.5:
            self.fence((broker_id,), FenceReason.PROCESS_ENDED)
        self._incarnation += 1
        clean = self._random.random() < 0.5
        self._request(Act("register", (broker_id, self._incarnation, clean)))
        self._commit()
        self.beat(broker_id)

    def _sync(self) -> None:
        """The followers of a partition catch up, and its leader proposes all that are in service."""
        self._commit()
        led = [
            (topic.name, index, partition)
            for topic in sorted(self.cluster.image.topics, key=lambda topic: topic.name)
            for index, partition in topic.partitions.items()
            if partition.leader != NO_LEADER
        ]
        if led:
            name, index, partition = self._random.choice(led)
            brokers = self.cluster.image.brokers
            isr = tuple(r for r in partition.replicas if r in brokers and brokers[r].is_active)
            self._request(Act("propose", (name, index, isr, "right", 0)))

    def _time(self) -> None:
        """Time passes; brokers without a heartbeat are fenced."""
        self.cluster.now_ms += self._random.choice([100, 3_000, 6_000])
        heartbeats = self.cluster.controller.heartbeats
        expired = heartbeats.expired(self.cluster.image.brokers, self.cluster.now_ms)
        if expired:
            self.fence(tuple(expired), FenceReason.SESSION_TIMEOUT)

    def _fence(self) -> None:
        dead = tuple(self._random.sample(BROKERS, self._random.randint(1, 2)))
        self.fence(dead, FenceReason.PROCESS_ENDED)

    def fence(self, broker_ids: tuple[int, ...], reason: FenceReason, epochs: dict[int, int] | None = None) -> None:
        """Fence brokers. Mostly others lead in their place before; the controller may end in between, unless brokers of
        certain `epochs` are meant.
        """
        if self._replacements.random() < 0.75:
            self._replace_leaders(broker_ids, epochs)
            if epochs is None and self._replacements.random() < 0.07:
                self._commit()
                self._crash()
                return
        self.operate(Act("fence", broker_ids), FenceBrokers(broker_ids, reason, epochs))

    def _replace_leaders(self, broker_ids: tuple[int, ...], epochs: dict[int, int] | None) -> None:
        if epochs is None and self._replacements.random() < 0.3:
            # The epochs of earlier incarnations change nothing.
            brokers = self.cluster.controller.state.brokers
            old = {each: brokers[each].epoch - 1 for each in broker_ids if each in brokers}
            if len(old) == len(broker_ids):
                before = View.of(self.cluster.controller.state).partitions
                self.operate(Act("replace", broker_ids), ReplaceLeaders(broker_ids, old))
                assert View.of(self.cluster.controller.state).partitions == before, "of an earlier incarnation"
        step: Withdrawal | None = ReplaceLeaders(broker_ids, epochs)
        while step is not None:
            step = self.operate(Act("replace", broker_ids), step)
            if epochs is None and self._replacements.random() < 0.1:
                return  # the fencing does the rest
            if self._replacements.random() < 0.3:
                self._commit()

    def _silence(self) -> None:
        """A broker stands still, or seems to: it is fenced, but no other process may register in its place."""
        broker_id = self._silences.choice(BROKERS)
        state, heartbeats = self.cluster.controller.state, self.cluster.controller.heartbeats
        broker = state.brokers.get(broker_id)
        if broker is None or broker.fenced or not heartbeats.has_session(broker, self.cluster.now_ms):
            return
        self.counts["silence"] += 1
        # The epoch of an earlier incarnation changes nothing.
        for epoch in (broker.epoch - 1, broker.epoch):
            operation = FenceBrokers((broker_id,), FenceReason.STANDS_STILL, {broker_id: epoch}, ended=False)
            self.operate(Act("fence", (broker_id,)), operation)
            found = self.cluster.controller.state.brokers[broker_id]
            assert found.fenced is (epoch == broker.epoch), f"broker {broker_id} of epoch {epoch}: {found}"
        assert heartbeats.has_session(broker, self.cluster.now_ms), f"broker {broker_id} has lost its session"

    def _flap(self) -> None:
        """The leader of a partition whose other replicas are not in sync is wrongly fenced again and again."""
        brokers = self.cluster.image.brokers
        alone = [
            partition.leader
            for topic in sorted(self.cluster.image.topics, key=lambda topic: topic.name)
            for partition in topic.partitions.values()
            if partition.leader != NO_LEADER and len(partition.isr) == 1 and brokers[partition.leader].is_active
        ]
        if not alone:
            return
        broker_id = self._flaps.choice(alone)
        self.counts["flap"] += 1
        for _ in range(3):
            self._commit()
            broker = self.cluster.image.brokers.get(broker_id)
            if broker is None or broker.fenced:
                return
            operation = FenceBrokers((broker_id,), FenceReason.STANDS_STILL, {broker_id: broker.epoch}, ended=False)
            self.operate(Act("fence", (broker_id,)), operation)
            self._commit()
            self.beat(broker_id)

    def _balance(self) -> None:
        self.operate(Act("balance", ()), BalanceLeaders(2))

    def _unclean(self) -> None:
        self.operate(Act("unclean", ()), ElectUnclean(2))

    def _abandon(self) -> None:
        self.cluster.abandon()
        assert same_content(self.cluster.controller.state, self.cluster.image), "dropped operations left something"
        self._rights.forget()
        self._quotas.drop()
        # A dropped registration may have replaced the counts of an incarnation.
        self._fenced_ms.clear()
        self.checks.forget()
        self._tokens.forget()

    def _crash(self) -> None:
        """Another controller takes over, from the log."""
        self.counts["crash"] += 1
        self.cluster.abandon()
        other = self.cluster.restarted()
        assert same_content(other.image, self.cluster.image), "the log gives another state"
        self.cluster = other
        self._quotas.drop()
        self._quotas.check()
        self._fenced_ms.clear()
        self._refusals.forget()
        self._tokens.forget()
        self._rights.forget()
        self.checks.forget()
