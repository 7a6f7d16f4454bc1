"""The host of an application as its pages, metrics and events see it: the embedded one, or that on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from broker_streams.hosts.batches import QueryBatches
from broker_streams.hosts.embedded.figures import figures_of
from broker_streams.hosts.embedded.host import EmbeddedHost
from broker_streams.hosts.embedded.queries import Queries
from broker_streams.hosts.figures import TaskFigures
from broker_streams.hosts.measures import Life, Measures
from broker_streams.hosts.settings import HostSettings
from broker_streams.plan.topology import Topology

EMBEDDED = "embedded"


class HostView(Protocol):
    """`member` is empty where the host is no member of a group. `waits` are the reasons for which it has no tasks.
    `stores` is None where rows cannot be read.
    """

    @property
    def host(self) -> str: ...
    @property
    def settings(self) -> HostSettings: ...
    @property
    def plan(self) -> Topology: ...
    @property
    def life(self) -> Life: ...
    @property
    def measures(self) -> Measures: ...
    @property
    def process(self) -> str: ...
    @property
    def stores(self) -> Queries | None: ...
    @property
    def member(self) -> str: ...
    @property
    def waits(self) -> tuple[str, ...]: ...
    def tasks(self) -> Sequence[TaskFigures]: ...
    def batches(self) -> Sequence[QueryBatches]: ...


class EmbeddedView:
    """An instance on the embedded host."""

    host = EMBEDDED

    def __init__(self, of: EmbeddedHost) -> None:
        self._of = of
        self.settings, self.plan, self.life, self.measures = of.settings, of.plan, of.life, of.measures
        self.process, self.stores = of.process_id, of.queries

    @property
    def member(self) -> str:
        return self._of.member.member_id

    @property
    def waits(self) -> tuple[str, ...]:
        return tuple(each.detail or f"status {each.code}" for each in self._of.statuses)

    def tasks(self) -> Sequence[TaskFigures]:
        return [figures_of(task_id, each) for task_id, each in sorted(self._of.tasks.running.items())]

    def batches(self) -> Sequence[QueryBatches]:
        return ()
