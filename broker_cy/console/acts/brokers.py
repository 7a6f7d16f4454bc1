"""Acts on brokers: cordon and uncordon (KIP-1066), and remove the registration of one that is gone for good."""

from __future__ import annotations

from broker_cy.admin import AdminClient
from broker_cy.admin.brokers import BrokerState
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.plan import Change, Command, Plan, Report
from broker_cy.core.classes import dataclass
from broker_cy.reporting.numbers import plural


@dataclass(frozen=True, slots=True)
class Cordon:
    """Cordons a broker, or lifts that."""

    broker_id: int
    is_cordoned: bool

    async def run(self, client: AdminClient) -> Report:
        if self.is_cordoned:
            await client.brokers.cordon(self.broker_id)
            return Report(f"cordoned broker {self.broker_id}: it takes no new replicas", (str(self.broker_id),))
        await client.brokers.uncordon(self.broker_id)
        return Report(f"uncordoned broker {self.broker_id}: it takes new replicas again", (str(self.broker_id),))


@dataclass(frozen=True, slots=True)
class Unregister:
    broker_id: int

    async def run(self, client: AdminClient) -> Report:
        await client.brokers.unregister(self.broker_id)
        return Report(f"removed the registration of broker {self.broker_id}", (str(self.broker_id),))


async def plan_cordon(client: AdminClient, command: Command, broker_id: int, *, cordoned: bool) -> Plan:
    """Plan a cordon, or lifting it. Raises ClientError if the broker is away, or does not know the setting."""
    now = await client.brokers.replicas()
    state = now.broker(broker_id)
    if not state.is_in_service:
        raise ClientError(
            Failure.INVALID,
            "it is not in service, and only the broker itself can change this",
            what=f"broker {broker_id}",
        )
    before = await client.brokers.cordoned_dirs(broker_id)
    if before is None:
        raise ClientError(
            Failure.UNSUPPORTED, "it does not know cordoned.log.dirs (Kafka 4.3 or later)", what=f"broker {broker_id}"
        )
    reason = await client.brokers.why_not_cordon(broker_id) if cordoned else ""
    others = [each for each in now.brokers if each.is_in_service and not each.is_cordoned and each is not state]
    last = cordoned and not others
    word = "cordon" if cordoned else "uncordon"
    is_done = state.is_cordoned if cordoned else not before
    return Plan(
        f"{word.capitalize()} broker {broker_id}",
        f"broker {broker_id} keeps its {plural(state.replicas, 'replica')}"
        + (", and takes no new ones" if cordoned else ", and takes new ones again"),
        command("brokers", word, broker_id, "--yes"),
        Cordon(broker_id, cordoned),
        [Change("cordoned directories", before or "(none)", "every directory" if cordoned else "(none)")],
        verb=word.capitalize(),
        is_destructive=False,
        problem=_cordon_problem(state, cordoned, is_done=is_done, is_last=last) or reason,
        is_done=is_done,
    )


def _cordon_problem(state: BrokerState, cordoned: bool, *, is_done: bool, is_last: bool) -> str:
    if is_done:
        return f"broker {state.broker_id} is {'cordoned already' if cordoned else 'not cordoned'}"
    return f"broker {state.broker_id} is the last that takes replicas: no topic could be created" if is_last else ""


async def plan_unregister(client: AdminClient, command: Command, broker_id: int) -> Plan:
    """Plan removing a registration. A broker in service, or one that still has replicas, is a problem of the plan."""
    state = (await client.brokers.replicas()).broker(broker_id)
    problem = ""
    if state.info is None:
        problem = f"broker {broker_id} is not registered"
    elif state.is_in_service:
        problem = f"broker {broker_id} is in service: drain it, stop it, and wait until it is fenced"
    elif state.replicas:
        problem = (
            f"broker {broker_id} still has {plural(state.replicas, 'replica')}: move everything away first with "
            f"`broker-cy brokers drain {broker_id}`"
        )
    return Plan(
        f"Unregister broker {broker_id}",
        f"the cluster forgets broker {broker_id} until it is started again",
        command("brokers", "unregister", broker_id, "--yes"),
        Unregister(broker_id),
        [Change(f"broker {broker_id}", "fenced", "not registered")],
        typed=str(broker_id),
        verb="Unregister",
        problem=problem,
    )
