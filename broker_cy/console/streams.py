"""The facts about stream processing applications that consoles show, and what is wrong with them."""

from __future__ import annotations

from typing import Any, Final

from broker_cy.admin.client import AdminClient
from broker_cy.admin.streams_applications import StreamsApplication, list_applications, read_application
from broker_cy.client.address import parse_address
from broker_cy.client.errors import ClientError
from broker_cy.client.streams_status import ask_json
from broker_cy.console.columns.streams import tone_of
from broker_cy.console.figures import Fact
from broker_cy.core.classes import NamedTuple
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count, short
from broker_cy.reporting.tone import Tone

PLANS_MAX: Final = 100
"""Plans of processes that are remembered: a process has one plan."""
PLAN_S: Final = 3.0


class Problem(NamedTuple):
    """A sentence about an application."""

    text: str


class ApplicationView(NamedTuple):
    """An application, and its plan as JSON (broker_streams/plan/codec.py) if one of its instances reports it."""

    application: StreamsApplication
    plan: Any

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(Problem(clean(text)) for text in self.application.problems)


def facts_of(view: ApplicationView) -> list[Fact]:
    """The facts of the page of one application."""
    found = view.application
    description = found.description
    versions = sorted({state.version for state in found.states.values() if state.version})
    guarantees = sorted({state.guarantee for state in found.states.values() if state.guarantee})
    group = f"{description.state}, epoch {description.group_epoch}"
    facts = [
        Fact("state", found.state, tone_of(found.state)),
        Fact("group", group) if found.driver is None else Fact("host", f"Spark, driver on {clean(found.driver.host)}"),
        Fact("instances", count(len(description.members))),
        Fact("active tasks", count(found.count_of_tasks)),
        Fact("lag", count(found.lag)),
        Fact("records/s", short(found.records_per_s)),
        Fact("rows of stores", count(found.rows)),
    ]
    if found.remaining:
        facts.append(Fact("to restore", count(found.remaining), Tone.NOTED))
    if guarantees:
        facts.append(Fact("guarantee", clean(", ".join(guarantees))))
    if versions:
        facts.append(Fact("version", clean(", ".join(versions))))
    return facts


class StreamsReader:
    """Reads applications, and the plan of each process once."""

    def __init__(self, client: AdminClient) -> None:
        self._client = client
        self._plans: dict[str, Any] = {}

    async def all(self) -> tuple[StreamsApplication, ...]:
        """Raises ClientError."""
        return tuple(await list_applications(self._client))

    async def one(self, name: str) -> ApplicationView:
        """Raises ClientError: the cluster has no such application."""
        found = await read_application(self._client, name)
        return ApplicationView(found, await self._plan(found))

    async def _plan(self, of: StreamsApplication) -> Any:
        for row in of.instances:
            if row.endpoint is None or row.member not in of.states:
                continue
            if row.process not in self._plans:
                try:
                    plan = await ask_json(parse_address(row.endpoint, needs_port=True), "/plan", PLAN_S)
                except (ClientError, ValueError):
                    continue
                while len(self._plans) >= PLANS_MAX:
                    del self._plans[next(iter(self._plans))]
                self._plans[row.process] = plan
            return self._plans[row.process]
        return None
