"""Acts: what changes something. Each is planned first, and the plan says what it will do before anything is done."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker_cy.admin.clusters import ClusterEntry
from broker_cy.admin.errors import AdminError

# Lines of a preview; the rest is told as a number.
LINES_MAX = 500


@dataclass(frozen=True)
class Plan:
    """A dry run of an act.

    `affected` says how much is (3 partitions, 12,345 offsets); `lines` each thing, old -> new; `command` the same act
    as a command line. `typed`: the name that has to be typed, None where nothing is lost for good. `run` does it and
    returns what to say. `problem`: why it cannot be done now.
    """

    title: str
    affected: str
    command: str
    run: Callable[[], Awaitable[str]]
    lines: Sequence[str] = ()
    typed: str | None = None
    verb: str = "Do it"
    is_destructive: bool = True
    problem: str = ""


@dataclass(frozen=True)
class Command:
    """The command line that does the same for a cluster, ready for a shell."""

    entry: ClusterEntry
    is_named: bool
    parts: tuple[str, ...] = field(default=())

    def __call__(self, *parts: str | int) -> str:
        where = (
            ("--cluster", self.entry.name)
            if self.is_named
            else ("--bootstrap", ",".join(str(address) for address in self.entry.bootstrap))
        )
        return shlex.join(["broker-cy", *map(str, parts), *where])


def raise_first(failed: Mapping[Any, AdminError], done: int) -> None:
    """AdminError where something failed, which also says how much was done."""
    for error in failed.values():
        if done:
            raise AdminError(
                error.failure,
                f"{error.reason} ({done} done, {len(failed)} failed)",
                broker=error.broker,
                api=error.api,
                code=error.code,
                what=error.what,
            )
        raise error
