"""The options of the kinds of users, typed.

A scenario file sets every option of its kind; an option that an entry created in Python leaves out has the default of
`scenario.options`. A default given here applies to kinds without the option.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar

from loadgen.scenario.model import UserSpec
from loadgen.scenario.options import KINDS

S = TypeVar("S")


def settings_of(kind: type[S], spec: UserSpec) -> S:
    """Return the settings of a dataclass from the options of the same names; `from_` is the option `from`."""
    options = {each.name: each.default for each in KINDS[spec.kind].options} | spec.options
    found: dict[str, Any] = {}
    for each in fields(kind):  # type: ignore[arg-type]
        if (option := each.name.rstrip("_")) in options:
            found[each.name] = options[option]
    return kind(**found)


@dataclass(frozen=True)
class Fetching:
    """How records are fetched."""

    max_wait_ms: int
    max_bytes: int
    isolation: str = "read_committed"
    from_: str = "earliest"

    @property
    def read_committed(self) -> bool:
        return self.isolation == "read_committed"


@dataclass(frozen=True)
class Consuming:
    """The options of `consumer` in addition to Fetching."""

    repeat: bool


@dataclass(frozen=True)
class Member:
    """How a member takes part in its group."""

    group: str
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int
    static: bool = False
    assignor: str = "range"
    protocol: str = "classic"


@dataclass(frozen=True)
class Churning:
    """The options of `group-member` in addition to Member. Durations in seconds."""

    groups: int
    churn: str
    churn_every: float
    rejoin_after: float
    pause_for: float
    commit_every: float


@dataclass(frozen=True)
class Slow:
    """The options of `slow-consumer` in addition to Member."""

    records_per_second: int
    delay_ms: int
    max_poll_records: int
    max_poll_interval_ms: int


@dataclass(frozen=True)
class ShareConsuming:
    """The options of `share-consumer`."""

    group: str
    release_share: float
    reject_share: float
    max_wait_ms: int
    max_poll_records: int
    isolation: str
    from_: str


@dataclass(frozen=True)
class Copying:
    """The options of `transactional-copier` in addition to Member."""

    target: str
    target_partitions: int
    transactional_id: str
    records_per_transaction: int
    abort_share: float
    transaction_timeout_ms: int


@dataclass(frozen=True)
class Administering:
    """The options of `admin-churn`."""

    operations: list[str]
    prefix: str
    topics: int
    partitions: int


@dataclass(frozen=True)
class Connecting:
    """The options of `connection-storm`. `hold` in seconds."""

    connections: int
    hold: float
    request: str


@dataclass(frozen=True)
class Probing:
    """The options of `probe`."""

    partitions: int
