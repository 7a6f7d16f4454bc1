"""Taking a broker out of the cluster for good, in steps that one command repeats: it is cordoned and drained; its
operator stops it, because no request can; then its registration is removed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from broker_cy.admin import AdminClient
from broker_cy.admin.move_progress import MoveProgress
from broker_cy.client.errors import ClientError
from broker_cy.console.acts.brokers import plan_unregister
from broker_cy.console.acts.moves import MoveReplicas, plan_drain
from broker_cy.console.acts.pace import Pace
from broker_cy.console.acts.plan import Change, Command, Failed, Plan, Report
from broker_cy.console.voters import quorum_now
from broker_cy.core.classes import dataclass


@dataclass(frozen=True, slots=True)
class DrainForGood(MoveReplicas):
    """Drains broker `broker_id`, and removes its registration if it no longer runs."""

    broker_id: int = -1
    is_away: bool = False

    async def follow(self, client: AdminClient, progress: Callable[[MoveProgress], None]) -> Report:
        # Without arguments `super` does not work in a dataclass with slots.
        report = await MoveReplicas.follow(self, client, progress)
        if report.failed:
            return report
        if not self.is_away:
            return replace(report, said=f"{report.said}; {next_step(self.broker_id)}")
        try:
            await client.brokers.unregister(self.broker_id)
        except ClientError as error:
            return replace(report, failed=(Failed(f"broker {self.broker_id}", error),))
        return replace(report, said=f"{report.said}; removed the registration of broker {self.broker_id}")


def next_step(broker_id: int) -> str:
    return f"stop broker {broker_id} now, and repeat the command, which then removes its registration"


async def plan_decommission(client: AdminClient, command: Command, broker_id: int, pace: Pace) -> Plan:
    """Plan the next step. Raises ClientError as `plan_drain`: also if too few brokers would be left."""
    state = (await client.brokers.replicas()).broker(broker_id)
    words = command("brokers", "decommission", broker_id, *pace.words(), "--yes")
    title = f"Decommission broker {broker_id}"
    votes = await _votes(client, broker_id)
    if not state.replicas and not state.is_in_service:
        plan = await plan_unregister(client, command, broker_id)
        return replace(plan, title=title, command=words, changes=[*plan.changes, *votes])
    plan = await plan_drain(client, command, [broker_id], pace)
    assert isinstance(plan.act, MoveReplicas)
    away = not state.is_in_service
    last = "its registration is removed" if away else next_step(broker_id)
    problem = plan.problem
    if plan.is_done:
        problem = "; ".join(
            [f"broker {broker_id} holds no replica: {next_step(broker_id)}", *(each.note for each in votes)]
        )
    return replace(
        plan,
        title=title,
        command=words,
        act=DrainForGood(
            plan.act.moves, plan.act.pace, plan.act.cordon, plan.act.stuck, broker_id=broker_id, is_away=away
        ),
        changes=[*plan.changes, Change("then", note=last), *votes],
        typed=str(broker_id) if away else None,
        verb="Decommission",
        problem=problem,
        is_done=False,
    )


async def _votes(client: AdminClient, node_id: int) -> list[Change]:
    """The further step if the node is a voter as well: without it, the quorum counts the node forever."""
    quorum = await quorum_now(client)
    if quorum is None or all(each.replica_id != node_id for each in quorum.voters):
        return []
    note = f"node {node_id} is a voter of the metadata quorum: `broker-cy quorum remove {node_id}` when it was stopped"
    return [Change("also", note=note)]
