"""The state of an instance of a stream processing application: what its page /status reports, and how a client asks.

The page is JSON of the classes below (status_page).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from typing import Any

from broker_cy.client.address import Address
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.http_exchange import HttpAnswer
from broker_cy.client.status_page import ask_page, built
from broker_cy.core.classes import dataclass


@dataclass(frozen=True, slots=True)
class InputState:
    """A partition that a task reads. `committed` is the next offset of the last commit, `position` that of the last
    read; `lag` counts records of the partition that were not processed, None while that is not known.
    """

    topic: str
    partition: int
    position: int | None = None
    committed: int | None = None
    lag: int | None = None


@dataclass(frozen=True, slots=True)
class StoreState:
    """A store of a task. `rows` is None for kinds that do not count them."""

    name: str
    kind: str
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task in one process. `role` is active, standby or warmup; `state` is restoring or running. `restored` records
    of changelogs were read since the task came here, and `remaining` are to be read. Times are since 1970; the stream
    time is None before the first record. Nodes have the number of records that each processor took; they are counted
    with metrics.recording.level=DEBUG. `state_bytes` is the size of the file with the rows of its stores, None if all
    of them are in memory.
    """

    task: str
    role: str
    state: str
    records: int = 0
    records_per_s: float = 0.0
    buffered: int = 0
    dropped: int = 0
    stream_time_ms: int | None = None
    restored: int = 0
    remaining: int = 0
    inputs: tuple[InputState, ...] = ()
    stores: tuple[StoreState, ...] = ()
    nodes: Mapping[str, int] = field(default_factory=dict)
    state_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class TrafficState:
    """Records and bytes of a topic since the begin of the process, and in a second."""

    topic: str
    records: int
    size_bytes: int = 0
    records_per_s: float = 0.0
    bytes_per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class BatchState:
    """The batches of one sub-topology on Spark since its driver began. Times and rates are those of the last 10 s;
    `parts_ms` has the parts of a batch (broker_streams/hosts/batches.py). The trigger lag is the time by which a
    batch begins too late. `runs` counts how often the query began. The fields with `last_` tell of the last batch: its
    number, its begin since 1970, its records, its tasks and its time.
    """

    query: str
    subtopology: str
    batches: int = 0
    runs: int = 0
    records: int = 0
    batches_per_s: float = 0.0
    records_per_s: float = 0.0
    batch_ms: float | None = None
    batch_max_ms: float | None = None
    trigger_lag_ms: float | None = None
    parts_ms: Mapping[str, float] = field(default_factory=dict)
    last_number: int | None = None
    last_begin_ms: int | None = None
    last_records: int | None = None
    last_tasks: int | None = None
    last_ms: float | None = None


@dataclass(frozen=True, slots=True)
class InstanceState:
    """An instance. `state` is one of KafkaStreams.State, `host` is embedded or spark. `waits` are the reasons for which
    the group has no tasks for it; `error` is what ended it. `commit_ms` is the average of the last seconds. `nodes` are
    rates of processors in a second (metrics.recording.level=DEBUG). `batches` are those of Spark, by sub-topology.
    """

    application: str
    state: str
    version: str = ""
    host: str = "embedded"
    guarantee: str = ""
    member: str = ""
    process: str = ""
    endpoint: str = ""
    since_ms: int = 0
    begin_ms: int = 0
    error: str = ""
    waits: tuple[str, ...] = ()
    records: int = 0
    records_per_s: float = 0.0
    commits: int = 0
    commits_per_s: float = 0.0
    commit_ms: float | None = None
    tasks: tuple[TaskState, ...] = ()
    consumed: tuple[TrafficState, ...] = ()
    produced: tuple[TrafficState, ...] = ()
    nodes: Mapping[str, float] = field(default_factory=dict)
    batches: tuple[BatchState, ...] = ()

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), ensure_ascii=False).encode()


def state_of(found: Any) -> InstanceState:
    """The state of a JSON value (to_json). Raises KeyError, TypeError or ValueError if it is none."""
    tasks = tuple(
        built(
            TaskState,
            {
                **each,
                "inputs": tuple(built(InputState, part) for part in each.get("inputs", ())),
                "stores": tuple(built(StoreState, store) for store in each.get("stores", ())),
            },
        )
        for each in found.get("tasks", ())
    )
    traffic = {
        name: tuple(built(TrafficState, each) for each in found.get(name, ())) for name in ("consumed", "produced")
    }
    batches = tuple(built(BatchState, each) for each in found.get("batches", ()))
    rest = {"tasks": tasks, "batches": batches, "waits": tuple(found.get("waits", ()))}
    return built(InstanceState, {**found, **traffic, **rest})


async def ask(address: Address, timeout_s: float) -> InstanceState:
    """The state of the instance at an address. Raises ClientError."""
    found = await ask_json(address, "/status", timeout_s)
    try:
        return state_of(found)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ClientError(Failure.MALFORMED, f"{address} does not answer as an instance of an application") from None


async def ask_json(address: Address, target: str, timeout_s: float, *, headers: Sequence[tuple[str, str]] = ()) -> Any:
    """The JSON of a page of an instance. Raises ClientError, with the text of an answer of another status than 200."""
    answer = await ask_page(address, target, timeout_s, headers=headers)
    if answer.status != 200:
        raise ClientError(Failure.REFUSED, _reason(answer), what=str(address))
    try:
        return json.loads(answer.body)
    except ValueError:
        raise ClientError(Failure.MALFORMED, f"{address} does not answer as an instance of an application") from None


async def ask_rows(
    address: Address, target: str, timeout_s: float, *, headers: Sequence[tuple[str, str]] = ()
) -> tuple[list[Any], str | None]:
    """The rows of a page of a store, and the place of the next page. Raises ClientError."""
    found = await ask_json(address, target, timeout_s, headers=headers)
    try:
        rows, following = found["rows"], found["next"]
    except (KeyError, TypeError):
        rows = following = None
    if not isinstance(rows, list) or not isinstance(following, str | None):
        raise ClientError(Failure.MALFORMED, f"{address} does not answer as an instance of an application")
    return rows, following


def _reason(answer: HttpAnswer) -> str:
    """The text of an error: the field `message` of its JSON, or its body."""
    text = answer.body[:500].decode(errors="replace").strip()
    try:
        found = json.loads(answer.body)
        text = str(found["message"])
    except (ValueError, KeyError, TypeError):
        pass
    return f"{text} (HTTP status {answer.status})" if text else f"HTTP status {answer.status}"
