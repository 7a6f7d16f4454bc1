"""The list of brokers: a row for each broker, or for the shards of a host, with its replicas and resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker_cy.admin.metadata import TopicInfo
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.broker_state import newest_about, state_of_host
from broker_cy.console.columns import brokers
from broker_cy.console.hosts import id_text
from broker_cy.console.listeners import Source
from broker_cy.console.rows import BrokerRow, LogDirs, broker_rows, host_rows
from broker_cy.metrics.events import Event
from broker_cy.reporting.tone import Tone
from dashboard.collector.channel import Column, Params, TableChannel, channel, linked
from dashboard.collector.columns import table_column
from dashboard.collector.holdings import Held, Holdings, Remembered, holdings_of, sizes_of
from dashboard.collector.patches import State
from dashboard.components.panel import page_path

Topics = tuple[TopicInfo, ...]

# The parameter of the host whose shards are shown.
HOST = "host"
ID_DIGITS_MAX = 10


@dataclass(frozen=True, slots=True)
class Row:
    """A broker, or the shards of a host, with their sums. `row` is None if it has replicas but is not in the cluster
    now. `size_bytes` is None if it is not known.
    """

    ids: tuple[int, ...]
    row: BrokerRow | None
    held: Held | None
    size_bytes: int | None
    state: tuple[str, Tone]

    @property
    def broker_id(self) -> int:
        """The broker, or the first shard of the host."""
        return self.ids[0]


def _broker(row: Row) -> BrokerRow | None:
    return row.row


def _held(row: Row) -> Held | None:
    return row.held


def _settings(row: Row) -> str:
    return "Settings" if row.row is not None and not row.row.shards else ""


@channel("brokers")
class Brokers(TableChannel[Row]):
    """Every broker of the cluster, and those that only hold replicas. The shards of a host are one row, as in the
    terminal console; `host`, the id of its first one, shows them instead.
    """

    SORT = "id"
    SUBJECT = frozenset({HOST})
    COLUMNS = (
        table_column(brokers.BROKER.by(lambda row: row.broker_id, text=lambda row: id_text(row.ids))),
        table_column(brokers.STATE.of(lambda row: row.state)),
        table_column(brokers.ADDRESS.of(_broker)),
        table_column(brokers.RACK.of(_broker)),
        table_column(brokers.LEADERS.by(lambda row: row.held and row.held.leads)),
        table_column(brokers.REPLICAS.of(_held)),
        table_column(brokers.IN_SYNC.of(_held)),
        table_column(brokers.OUT_OF_SYNC.of(_held)),
        table_column(brokers.SIZE.by(lambda row: row.size_bytes)),
        table_column(brokers.UPTIME.of(_broker)),
        table_column(brokers.CPU.of(_broker)),
        table_column(brokers.MEMORY.of(_broker)),
        table_column(brokers.CONNECTIONS.of(_broker)),
        Column("settings", "Settings", _settings),
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._holdings: Remembered[Topics, Holdings] = Remembered(lambda topics: holdings_of(topics, self.scope))
        self._sizes: Remembered[LogDirs, dict[int, int]] = Remembered(lambda dirs: sizes_of(dirs, self.scope))
        self._rows: list[Row] | None = None

    @classmethod
    def check(cls, params: Params) -> dict[str, str]:
        host_of(params)
        return super().check(params)

    def sources(self) -> Sequence[Source]:
        session = self.session
        return [session.cluster(), session.topics(), session.log_dirs(), session.samples, session.events]

    async def state(self) -> State | None:
        cluster = self.session.cluster().value
        if cluster is not None:
            topics, dirs = self.session.topics().value, self.session.log_dirs().value
            held = None if topics is None else (await self._holdings.of(topics)).brokers
            sizes = {} if dirs is None else await self._sizes.of(dirs)
            rows = broker_rows(cluster, None, dirs, list(self.session.samples.items))
            self._rows = self._combined(rows, held, sizes, newest_about(self.session.events.items))
        return await super().state()

    def _combined(
        self,
        rows: Sequence[BrokerRow],
        held: Mapping[int, Held] | None,
        sizes: Mapping[int, int],
        newest: Mapping[int, Event],
    ) -> list[Row]:
        host = host_of(self.params)
        found = []
        for row in host_rows(rows, ()):
            if host is None:
                shown: tuple[BrokerRow, ...] = (row,)
            elif host in (each.info.broker_id for each in row.parts):
                shown = row.parts
            else:
                continue
            for each in shown:
                ids = tuple(part.info.broker_id for part in each.parts)
                size_bytes = sum(sizes[broker] for broker in ids) if all(broker in sizes for broker in ids) else None
                whole = None if held is None else held_by(held, ids)
                found.append(Row(ids, each, whole, size_bytes, state_of_host(each, newest)))
        if host is None:
            there = {row.info.broker_id for row in rows}
            found += [
                Row((broker,), None, each, sizes.get(broker), ("away", Tone.BAD))
                for broker, each in (held or {}).items()
                if broker not in there
            ]
        return found

    def rows(self) -> Iterable[Row] | None:
        return self._rows

    def row_id(self, row: Row) -> str:
        return str(row.broker_id)

    def _cells(self, row: Row) -> list[Any]:
        cells = super()._cells(row)
        if row.row is not None:
            broker = str(row.broker_id)
            if row.row.shards:
                cells[0] = linked(cells[0], page_path(self.hub.name, "brokers", host=broker))
            else:
                cells[0] = linked(cells[0], page_path(self.hub.name, "broker", broker=broker))
                cells[-1] = linked(cells[-1], page_path(self.hub.name, "broker-settings", broker=broker))
        return cells


def host_of(params: Params) -> int | None:
    """Return the broker whose host is shown; None for all hosts. Raises ClientError."""
    text = params.get(HOST, "")
    if text and (not text.isascii() or not text.isdecimal() or len(text) > ID_DIGITS_MAX):
        raise ClientError(Failure.INVALID, f"{HOST}={text!r}: the id of a broker is expected")
    return int(text) if text else None


def held_by(held: Mapping[int, Held], brokers: Iterable[int]) -> Held:
    """Return the sum of the brokers' holdings."""
    each = [held.get(broker, Held()) for broker in brokers]
    return Held(sum(one.leads for one in each), sum(one.replicas for one in each), sum(one.in_sync for one in each))
