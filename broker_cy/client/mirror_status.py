"""The state of the flows of a process of broker-mirror: what its page /status reports, and how a client asks for it.

The page is JSON of the classes below (status_page).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, field
from typing import Any, Final, Protocol

from broker_cy.client.address import Address
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.status_page import ask_page, built
from broker_cy.core.classes import dataclass

PLAN_PROBLEM: Final = "refresh.topics: "
"""The begin of the keys of problems with topics; the topic follows."""


class Lagging(Protocol):
    """A partition with its lag, as far as it is known."""

    @property
    def lag_records(self) -> int | None: ...
    @property
    def lag_ms(self) -> int | None: ...


def records_behind(partitions: Iterable[Lagging]) -> int | None:
    """The records of all partitions that were not copied yet; None if no partition is known."""
    known = [each.lag_records for each in partitions if each.lag_records is not None]
    return sum(known) if known else None


def longest_lag_ms(partitions: Iterable[Lagging]) -> int | None:
    """The longest lag in time of a partition; None if no partition is known."""
    known = [each.lag_ms for each in partitions if each.lag_ms is not None]
    return max(known) if known else None


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition of the source and its copy. None: not known yet. `waits`: the problem stops the partition.
    `latency_ms` is the age of the newest record of the last batch when the target had it.
    """

    topic: str
    partition: int
    remote_topic: str
    source_position: int | None
    source_end: int | None
    target_end: int | None
    lag_records: int | None
    lag_ms: int | None
    records: int
    bytes: int
    problem: str | None
    waits: bool
    latency_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Restart:
    """A restart of a flow: its time, and the reason for which the flow had ended."""

    time_ms: int
    cause: str


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """A flow in one process. `state` is starting, running, waiting (after a failure) or stopped; `share` is the part
    of this process, such as "1 of 2". `problems` are sentences by topic or task; `loops` are topics that come from the
    target. `groups` have the number of partitions with translated offsets. Rates are of one second. The last turn of
    emit.checkpoints took `checkpoint_ms`, and ended at `checkpoint_at_ms` (since 1970).
    """

    source: str
    target: str
    kind: str
    state: str
    share: str | None = None
    leads: bool = False
    partitions: tuple[PartitionState, ...] = ()
    problems: Mapping[str, str] = field(default_factory=dict)
    loops: tuple[str, ...] = ()
    groups: Mapping[str, int] = field(default_factory=dict)
    records_per_s: float = 0.0
    bytes_per_s: float = 0.0
    checkpoint_ms: int | None = None
    checkpoint_at_ms: int | None = None
    restarts: int = 0
    last_restarts: tuple[Restart, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def circles(self) -> dict[str, str]:
        """The loops that neither of two flows copies (IdentityReplicationPolicy), with the keys of their problems."""
        found = {topic: f"{PLAN_PROBLEM}{topic}" for topic in self.loops}
        return {topic: key for topic, key in found.items() if key in self.problems}

    @property
    def lag_records(self) -> int | None:
        return records_behind(self.partitions)

    @property
    def lag_ms(self) -> int | None:
        return longest_lag_ms(self.partitions)


@dataclass(frozen=True, slots=True)
class MirrorStatus:
    """The flows of a process."""

    version: str
    flows: tuple[FlowStatus, ...]

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), ensure_ascii=False).encode()


def status_of(found: Any) -> MirrorStatus:
    """Return the status of a JSON value (to_json). Raises KeyError, TypeError or ValueError if it is none."""
    flows = []
    for each in found["flows"]:
        parts = tuple(built(PartitionState, part) for part in each["partitions"])
        last = tuple(built(Restart, restart) for restart in each["last_restarts"])
        flows.append(
            built(FlowStatus, {**each, "partitions": parts, "last_restarts": last, "loops": tuple(each["loops"])})
        )
    return MirrorStatus(str(found["version"]), tuple(flows))


async def ask(address: Address, timeout_s: float) -> MirrorStatus:
    """Return the status of the process at an address. Raises ClientError."""
    answer = await ask_page(address, "/status", timeout_s)
    if answer.status != 200:
        raise ClientError(Failure.REFUSED, f"{address} answers with the HTTP status {answer.status}")
    try:
        return status_of(json.loads(answer.body))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ClientError(Failure.MALFORMED, f"{address} does not answer as a mirror") from None
