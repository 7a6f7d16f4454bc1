"""Acts on the log directories (disks) of brokers: move replicas to another one, balance, drain, and cancel moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from broker_cy.admin.log_dirs import BrokerReplica
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.directories import (
    balance_form,
    directory_form,
    plan_directory_balance,
    plan_directory_cancel,
    plan_directory_drain,
    plan_directory_move,
    policy_of,
)
from broker_cy.console.acts.pace import pace_of
from broker_cy.console.acts.plan import Plan
from broker_cy.console.fields import Form
from dashboard.acts import Act, Call, act
from dashboard.collector.holdings import parse_broker
from dashboard.pages.broker_acts import broker_of
from dashboard.pages.group import parse_partition
from dashboard.security.roles import Need, Role


def replica_row(replica: BrokerReplica) -> str:
    """The id of a row: `orders-3 1`."""
    return f"{replica.partition} {replica.broker_id}"


def replica_of(row: str) -> BrokerReplica:
    """The replica of a row, `orders-3 1` or `orders-3 1 /disk2`. Raises ClientError for what is none."""
    partition, _, rest = row.partition(" ")
    broker = parse_broker("broker", {"broker": rest.partition(" ")[0]})
    if broker is None:
        raise ClientError(Failure.INVALID, f"{row!r} is no replica")
    return BrokerReplica(broker, parse_partition(partition))


class _OfReplicas(Act):
    """Acts on marked replicas."""

    def need(self, cluster: str, params: Mapping[str, str], rows: Sequence[str]) -> Need:
        topics = tuple(sorted({replica_of(row).partition.topic for row in rows}))
        return replace(super().need(cluster, params, rows), topics=topics, every_topic=not rows)


@act("move-to-directory", Role.ADMIN)
class MoveToDirectory(_OfReplicas):
    """Moves the marked replicas, which are on one broker, to one of its directories."""

    @staticmethod
    def _broker(call: Call) -> int:
        brokers = {replica_of(row).broker_id for row in call.rows}
        if len(brokers) != 1:
            raise ClientError(Failure.INVALID, "mark one or more replicas of one broker")
        return brokers.pop()

    async def form(self, call: Call) -> Form | None:
        broker = self._broker(call)
        found = (await call.client.log_dirs.describe([broker])).whole()[broker]
        paths = [each.path for each in found if each.accepts]
        if len(found) < 2 or not paths:
            raise ClientError(Failure.REFUSED, f"broker {broker} has no other directory that takes replicas")
        return directory_form(f"Move replicas of broker {broker}", "To the directory", paths)

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        by_topic: dict[str, list[int]] = {}
        for topic, number in sorted(replica_of(row).partition for row in call.rows):
            by_topic.setdefault(topic, []).append(number)
        topics = [(topic, tuple(numbers)) for topic, numbers in by_topic.items()]
        path = values["directory"]
        return await plan_directory_move(
            call.client, call.command, self._broker(call), path, topics, pace_of(values)
        )  # fmt: skip


@act("cancel-directory-moves", Role.ADMIN)
class CancelDirectoryMoves(_OfReplicas):
    """Cancels the marked moves; or all if none are marked."""

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        chosen = {replica_of(row) for row in call.rows}
        keys = sorted({each.partition for each in chosen})
        words = [word for key in keys for word in ("--topic", f"{key.topic}:{key.partition}")]
        return await plan_directory_cancel(
            call.client, call.command, lambda each: not chosen or each in chosen, words
        )  # fmt: skip


class _OfBroker(Act):
    """Acts on replicas of any topic, of the parameter `broker`."""

    def need(self, cluster: str, params: Mapping[str, str], rows: Sequence[str]) -> Need:
        return replace(super().need(cluster, params, rows), every_topic=True)


@act("balance-directories", Role.ADMIN)
class BalanceDirectories(_OfBroker):
    """Balances the directories of the parameter `broker`, or of each broker."""

    async def form(self, call: Call) -> Form | None:
        broker = parse_broker("broker", call.params)
        whose = "each broker" if broker is None else f"broker {broker}"
        return balance_form(f"Balance the directories of {whose}")

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        broker = parse_broker("broker", call.params)
        return await plan_directory_balance(call.client, call.command, broker, policy_of(values), pace_of(values))


@act("drain-directory", Role.ADMIN)
class DrainDirectory(_OfBroker):
    """Cordons a directory of the parameter `broker`, and moves its replicas away."""

    async def form(self, call: Call) -> Form | None:
        broker = broker_of(call)
        found = (await call.client.log_dirs.describe([broker])).whole()[broker]
        return directory_form(
            f"Drain a directory of broker {broker}", "Directory", [each.path for each in found if not each.error]
        )

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_directory_drain(
            call.client, call.command, broker_of(call), values["directory"], pace_of(values)
        )  # fmt: skip
