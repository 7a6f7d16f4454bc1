"""Acts that last minutes to hours, because replicas copy: how fast they run, and the progress that they report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from broker_cy.admin import AdminClient
from broker_cy.admin.move_progress import MoveProgress
from broker_cy.admin.move_run import CONCURRENT_DEFAULT, CONCURRENT_MAX
from broker_cy.client.quantities import BYTES_HELP
from broker_cy.console.acts.plan import Report
from broker_cy.console.fields import Field, Form
from broker_cy.console.moving import pace_text
from broker_cy.console.values import integer, optional, parse_bytes
from broker_cy.core.classes import dataclass
from broker_cy.reporting.numbers import plural, size


@dataclass(frozen=True, slots=True)
class Pace:
    """How a plan is carried out: moves at a time, and bytes a second of each broker (None: no limit)."""

    concurrent: int = CONCURRENT_DEFAULT
    throttle_bytes_per_s: int | None = None

    def words(self) -> list[str | int]:
        throttle: list[str | int] = (
            [] if self.throttle_bytes_per_s is None else ["--throttle", self.throttle_bytes_per_s]
        )
        return ["--concurrent", self.concurrent, *throttle]


# As a user gets it who asks for nothing.
PACE_DEFAULT: Final = Pace()


class LongAct:
    """The base of acts that move replicas: frozen dataclasses."""

    __slots__ = ()

    @property
    def steps(self) -> int:
        """The number of partitions that it moves."""
        raise NotImplementedError

    async def run(self, client: AdminClient) -> Report:
        return await self.follow(client, _ignore)

    async def follow(self, client: AdminClient, progress: Callable[[MoveProgress], None]) -> Report:
        """As `run`, and call `progress` about once a second. If it is cancelled, the moves under way are cancelled and
        the throttle is removed before CancelledError is raised.
        """
        raise NotImplementedError


def _ignore(progress: MoveProgress) -> None:
    """Progress of a run without a display."""


def pace_form(title: str, *fields: Field) -> Form:
    """The fields of the form for a plan of moves, after `fields`; see `pace_of`."""
    return Form(
        title,
        [
            *fields,
            Field("concurrent", "Moves at a time", integer(1, CONCURRENT_MAX), str(CONCURRENT_DEFAULT)),
            Field("throttle", "Bytes per second", optional(parse_bytes), hint=f"no limit, or {BYTES_HELP}"),
        ],
        note="The limit is that of each broker, for what it copies; it ends with the moves.",
    )


def pace_of(values: Mapping[str, Any]) -> Pace:
    """The pace that was entered into `pace_form`."""
    return Pace(values["concurrent"], values["throttle"])


def progress_text(progress: MoveProgress) -> str:
    """`3 of 12 moves, 1.2 GiB of 4.5 GiB, 80.0 MiB/s, 41.0 s left`."""
    parts = [
        f"{progress.done} of {plural(progress.moves, 'move')}",
        f"{size(progress.copied_bytes)} of {size(progress.total_bytes)}",
    ]
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    if not progress.is_over:
        parts += pace_text(progress.rate_bytes_per_s, progress.left_s)
    return ", ".join(parts)
