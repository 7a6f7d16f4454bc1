"""Plans, which describe the effect of an act as data, and their execution.

A console shows the plan (how much is affected, each change, the equivalent command line), asks for the name if the
act cannot be undone, and passes the plan to `execute`. A plan holds no client: it can be kept while a user reads it,
and be executed with the client of the user who confirms it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any, Protocol

from broker_cy.admin import AdminClient
from broker_cy.admin.caller import Outcome
from broker_cy.client.clusters import ClusterEntry
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.security import SECRETS
from broker_cy.core.classes import dataclass

# Changes of a preview that a console shows; of the others it shows only the number.
CHANGES_MAX = 500


@dataclass(frozen=True, slots=True)
class Change:
    """One resource that a plan would change. `before` and `after` are None if `note` describes the change alone."""

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
    """One resource whose act failed, and the reason."""

    what: str
    error: ClientError


@dataclass(frozen=True, slots=True)
class Revealed:
    """A secret that exists since the act: consoles show it once, and it is in no log, no audit and no `repr`."""

    what: str
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Report:
    """The result of an act. `said` is a sentence about `done`; a call that failed as a whole has only `failed`."""

    said: str
    done: tuple[str, ...] = ()
    failed: tuple[Failed, ...] = ()
    revealed: Revealed | None = None

    @classmethod
    def of(cls, said: str, outcome: Outcome[Any, Any]) -> Report:
        """Return the report of a call for several resources."""
        return cls(
            said,
            tuple(map(str, outcome.found)),
            tuple(Failed(str(key), error) for key, error in outcome.failed.items()),
        )

    @property
    def problem(self) -> str:
        """Return why not everything was done; empty if it was."""
        if not self.failed:
            return ""
        first = str(self.failed[0].error)
        if not self.done and len(self.failed) == 1:
            return first
        return f"{first} ({len(self.done)} done, {len(self.failed)} failed)"


class Act(Protocol):
    """The operation of a plan: a frozen dataclass with everything that the operation needs."""

    async def run(self, client: AdminClient) -> Report:
        """Run the operation. May raise ClientError if nothing was changed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A dry run of an act.

    `affected` counts the affected resources (3 partitions, 12,345 offsets), `changes` lists them, and `command` is the
    equivalent command line. `typed` is the name that the user must type, None if no data is lost irrecoverably.
    `problem` says why the act cannot be done now; with `is_done`, because its goal is already reached.
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
    is_done: bool = False


async def execute(client: AdminClient, plan: Plan, typed: str | None = None) -> Report:
    """Execute `plan`. `typed` is the name that was typed to confirm it.

    Raises ClientError, and sends nothing, if the plan has a problem or the name does not match. Failures during the
    execution are in the report.
    """
    if plan.problem:
        raise ClientError(Failure.INVALID, plan.problem)
    if plan.typed is not None and typed != plan.typed:
        raise ClientError(Failure.INVALID, f"{typed or ''!r} is not {plan.typed!r}: nothing was changed")
    try:
        return await plan.act.run(client)
    except ClientError as error:
        return Report("", failed=(Failed(plan.title, error),))


@dataclass(frozen=True, slots=True)
class Command:
    """Builds the equivalent command line for a cluster, ready for a shell."""

    entry: ClusterEntry
    is_named: bool

    def __call__(self, *parts: str | int) -> str:
        return self.of("broker-cy", *parts)

    def of(self, program: str, *parts: str | int) -> str:
        """Return the command line of a program with the same options for the cluster."""
        where = (
            ("--cluster", self.entry.name)
            if self.is_named
            else ("--bootstrap", ",".join(str(address) for address in self.entry.bootstrap))
        )
        return shlex.join([program, *map(str, parts), *where, *self._login()])

    def _login(self) -> Iterator[str]:
        """The options of the login. The command is shown: values that are secrets are left out."""
        if self.entry.command_config is not None:
            yield from ("--command-config", str(self.entry.command_config))
        for name, value in self.entry.overrides.items():
            yield from ("-X", f"{name}={'...' if name in SECRETS else value}")
