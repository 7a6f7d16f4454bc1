"""Plans: what an act would do, as data; and their execution.

A console shows the plan (how much is affected, each change, the equivalent command line), asks for the name where the
act cannot be undone, and passes the plan to `execute`. A plan holds no client: it can be kept while somebody reads it,
and be executed with the client of whoever confirms it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from broker_cy.admin import AdminClient
from broker_cy.admin.caller import Outcome
from broker_cy.admin.clusters import ClusterEntry
from broker_cy.admin.errors import AdminError, Failure

# Changes of a preview that a console shows; it gives the number of the others.
CHANGES_MAX = 500


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that a plan would change. `before` and `after` are None where `note` says it all."""

    what: str
    before: str | None = None
    after: str | None = None
    note: str = ""

    def __str__(self) -> str:
        """`orders-0: 5 -> 9 (+4)`, `retention.ms = 5`, or `orders: 12 offsets`."""
        if self.after is None:
            return f"{self.what}: {self.note}" if self.note else self.what
        change = f"{self.what} = {self.after}" if self.before is None else f"{self.what}: {self.before} -> {self.after}"
        return f"{change} ({self.note})" if self.note else change


@dataclass(frozen=True, slots=True)
class Failed:
    """One thing that an act could not do, and why."""

    what: str
    error: AdminError


@dataclass(frozen=True, slots=True)
class Report:
    """What an act did. `said` is a sentence about `done`; a call that failed as a whole has only `failed`."""

    said: str
    done: tuple[str, ...] = ()
    failed: tuple[Failed, ...] = ()

    @classmethod
    def of(cls, said: str, outcome: Outcome[Any, Any]) -> Report:
        """The report of a call about many things."""
        return cls(
            said,
            tuple(map(str, outcome.found)),
            tuple(Failed(str(key), error) for key, error in outcome.failed.items()),
        )

    @property
    def problem(self) -> str:
        """Why not everything was done; empty if it was."""
        if not self.failed:
            return ""
        first = str(self.failed[0].error)
        if not self.done and len(self.failed) == 1:
            return first
        return f"{first} ({len(self.done)} done, {len(self.failed)} failed)"


class Act(Protocol):
    """What a plan does when it is executed: a frozen dataclass with everything that it needs."""

    async def run(self, client: AdminClient) -> Report:
        """Do it. May raise AdminError if nothing was done."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A dry run of an act.

    `affected` says how much is affected (3 partitions, 12,345 offsets), `changes` each thing, `command` the equivalent
    command line. `typed` is the name that has to be typed, None if nothing is lost irrecoverably. `problem` says why
    the act cannot be done now.
    """

    title: str
    affected: str
    command: str
    act: Act
    changes: Sequence[Change] = ()
    typed: str | None = None
    verb: str = "Execute"
    is_destructive: bool = True
    problem: str = ""


async def execute(client: AdminClient, plan: Plan, typed: str | None = None) -> Report:
    """Do what `plan` says. `typed` is what was typed to confirm it.

    Raises AdminError, and sends nothing, where the plan has a problem or the name does not match. What fails while it
    is executed is in the report.
    """
    if plan.problem:
        raise AdminError(Failure.INVALID, plan.problem)
    if plan.typed is not None and typed != plan.typed:
        raise AdminError(Failure.INVALID, f"{typed or ''!r} is not {plan.typed!r}: nothing was changed")
    try:
        return await plan.act.run(client)
    except AdminError as error:
        return Report("", failed=(Failed(plan.title, error),))


@dataclass(frozen=True, slots=True)
class Command:
    """Builds the equivalent command line for a cluster, ready for a shell."""

    entry: ClusterEntry
    is_named: bool

    def __call__(self, *parts: str | int) -> str:
        where = (
            ("--cluster", self.entry.name)
            if self.is_named
            else ("--bootstrap", ",".join(str(address) for address in self.entry.bootstrap))
        )
        return shlex.join(["broker-cy", *map(str, parts), *where])
