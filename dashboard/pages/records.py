"""Records of a topic: read from any position, filter, search, follow; one record in full; export.

The address has the request (collector/record_request.py). The page opens a job for it (collector/record_jobs.py), and
the panels show that job: the table shows its records in blocks, and the panel above shows its progress. The buttons of
that panel use /reading (record_routes.py). Assets: records.js.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from dash import html
from dash.development.base_component import Component

from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import StartKind
from broker_cy.client.decoded import Seen
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.turns import Turns
from broker_cy.console.columns import records as columns
from broker_cy.console.decoding import shows_decoded
from broker_cy.console.listeners import Source
from broker_cy.console.payload import Format, line
from broker_cy.console.scan import Row, Scan, State, Tail
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count, percent, plural, short, size, when
from broker_cy.reporting.tone import Tone
from broker_cy.wire.records import Record
from dashboard.collector.channel import Cell, Channel, Params, TableChannel, channel, encoded_text
from dashboard.collector.columns import table_column
from dashboard.collector.decoded import DecodedRows
from dashboard.collector.hub import ClusterHub
from dashboard.collector.patches import State as Data
from dashboard.collector.record_jobs import NEWEST_MAX
from dashboard.collector.record_request import FILTERS, NAMES, parse_request, read_form
from dashboard.collector.record_view import View, in_full, read_record, view_of
from dashboard.components.attributes import attributes
from dashboard.components.panel import act_button, link, page_path, panel, table
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages.record_acts import ProduceRecord, ReproduceRecords
from dashboard.security.roles import Need, Role, Scope, decide

# Bytes of a key and of a value in a row of the table.
KEY_BYTES_MAX: Final = 120
VALUE_BYTES_MAX: Final = 300
# Headers of one record that are shown, and characters of all their names in a row.
HEADERS_SHOWN_MAX: Final = 100
HEADER_CHARACTERS_MAX: Final = 80
_PRESETS: Final = ("beginning", "-100", "-1000", "@-5m", "@-1h", "@-1d", "end")
_TONES: Final = {State.FAILED: Tone.BAD, State.DONE: Tone.GOOD, State.RUNNING: Tone.PLAIN}


def _bytes_cell(data: bytes | None, shown: Format, limit: int) -> Cell:
    """Return the cell of a key or value, which may have any text."""
    return Cell("null", Tone.MUTED) if data is None else Cell(line(data, shown, limit))


def _auto() -> Format:
    """The format of the columns. Cells of keys and values depend on the viewer, so Records builds them itself."""
    return Format.AUTO


@channel("records")
class Records(TableChannel[Row]):
    """The records of a job, which `open` of hub.jobs returned for the viewer."""

    SUBJECT = frozenset({"topic", "job"})
    REQUIRED = SUBJECT
    COLUMNS = (
        table_column(columns.TIME, 190),
        table_column(columns.PARTITION, 86),
        table_column(columns.OFFSET, 110),
        table_column(columns.key_column(_auto), 150),
        table_column(columns.SIZE, 86),
        table_column(columns.value_column(_auto), 240, is_flex=True),
        table_column(columns.HEADERS, 120),
    )

    def __init__(self, hub: ClusterHub, params: Params, scope: Scope) -> None:
        """Raises ClientError if the job has ended, or is not one of this topic and scope."""
        super().__init__(hub, params, scope)
        self._job = hub.jobs.get(params["job"], params["topic"], scope)
        # The cells of the rows of the last state: masking and formatting a record again is slow.
        self._cells_of: dict[str, list[Any]] = {}
        is_decoded = shows_decoded(self._job.request.shown)
        self._decoded = DecodedRows(self.session.decoder if is_decoded else None, params["topic"])

    def sources(self) -> Sequence[Source]:
        return [self._job, self._decoded]

    async def close(self) -> None:
        await self._decoded.close()

    def row_id(self, row: Row) -> str:
        return f"{row.partition}-{row.record.offset}"

    async def state(self) -> Data | None:
        job = self._job
        if job.scan is None and job.tail is None:
            return None
        window = self.window(self.params)
        rows = job.rows()
        known, self._cells_of = self._cells_of, {}
        shown = rows[window.first : window.first + window.count]
        found = {place: known[place] for row in shown if (place := self.row_id(row)) in known}
        missing = [row for row in shown if self.row_id(row) not in found]
        seen = await self._decoded.seen(missing)
        cells, turns = dict(found), Turns()
        for row, each in zip(missing, seen, strict=True):
            place = self.row_id(row)
            cells[place] = self._encoded(row, await self._view(row, each))
            if each.is_final:
                found[place] = cells[place]
            await turns.pause()
        self._cells_of = found
        return {
            "rows": [{"id": self.row_id(row), "cells": cells[self.row_id(row)]} for row in shown],
            "from": window.first,
            "found": len(rows),
            "total": len(rows),
        }

    async def _view(self, row: Row, seen: Seen) -> View:
        shown = self._job.request.shown
        return await view_of(self.hub.masking, self.scope, self.params["topic"], row.record, seen, shown)

    def _encoded(self, row: Row, view: View) -> list[Any]:
        topic, shown = self.params["topic"], self._job.request.shown
        record = view.record
        value = row.record.value
        here = page_path(
            self.hub.name, "records", **{"topic": topic, "from": str(record.offset), "partitions": str(row.partition)}
        )
        names = clean(", ".join(name for name, _ in record.headers)[:HEADER_CHARACTERS_MAX])
        return [
            f"@{record.timestamp}" if record.timestamp >= 0 else "-",
            str(row.partition),
            Cell(count(record.offset), href=here).encoded(),
            _bytes_cell(record.key, shown, KEY_BYTES_MAX).encoded(),
            "-" if value is None else size(len(value)),
            _bytes_cell(record.value, shown, VALUE_BYTES_MAX).encoded(),
            encoded_text(names),
        ]


@channel("reading")
class Reading(Channel):
    """The progress of a job: {"state", "tone", "done" (0 to 1, or null), "parts": [[text, tone]], "about", "can":
    [steps of /reading]}.
    """

    PARAMS = frozenset({"topic", "job"})
    REQUIRED = PARAMS

    def __init__(self, hub: ClusterHub, params: Params, scope: Scope) -> None:
        """Raises ClientError if the job has ended, or is not one of this topic and scope."""
        super().__init__(hub, params, scope)
        self._job = hub.jobs.get(params["job"], params["topic"], scope)
        self._decoded = DecodedRows(self.session.decoder, params["topic"])

    def sources(self) -> Sequence[Source]:
        return [self._job, self._decoded]

    async def close(self) -> None:
        await self._decoded.close()

    async def state(self) -> Data | None:
        job = self._job
        if job.tail is not None:
            return self._of_tail(job.tail)
        return None if job.scan is None else self._of_scan(job.scan)

    def _of_scan(self, scan: Scan) -> Data:
        job = self._job
        # The task of a reading that was just started or stopped may not have run yet.
        state = State.RUNNING if job.is_running and scan.state is not State.DONE else scan.state
        rate = scan.records / scan.elapsed_s if scan.elapsed_s > 0 else 0.0
        parts = [
            (f"{percent(scan.offsets_done, scan.offsets_total)} of {count(scan.offsets_total)} offsets", Tone.PLAIN),
            (f"{count(scan.found)} found", Tone.PLAIN),
            (f"{short(rate)} records/s", Tone.MUTED),
        ]
        start = job.request.start
        if start.kind is StartKind.LAST and start.value > NEWEST_MAX:
            parts.append((f"the newest {count(NEWEST_MAX)} are shown", Tone.WARN))
        if scan.lost:
            parts.append((f"{count(scan.lost)} deleted meanwhile", Tone.WARN))
        if scan.damage:
            parts.append((plural(len(scan.damage), "damaged batch", "damaged batches"), Tone.BAD))
        text = {
            State.PAUSED: "a page is full: continue for the next one",
            State.DONE: "read to the end",
            State.FAILED: f"failed: {scan.error}",
        }.get(state, state.value)
        can = {State.RUNNING: "stop", State.PAUSED: "next", State.STOPPED: "resume", State.FAILED: "resume"}.get(state)
        total = scan.offsets_total
        return self._state(
            text, _TONES.get(state, Tone.WARN), 1.0 if total <= 0 else scan.offsets_done / total, parts, can
        )

    def _of_tail(self, tail: Tail) -> Data:
        parts = [(f"{count(tail.seen)} seen", Tone.PLAIN)]
        if not self._job.request.wanted.is_empty:
            parts.append((f"{count(tail.matches)} found", Tone.PLAIN))
        parts.append((f"{count(len(tail.ring))} kept", Tone.PLAIN))
        parts.append((f"{count(tail.dropped)} dropped", Tone.WARN if tail.dropped else Tone.PLAIN))
        if tail.lost:
            parts.append((f"{count(tail.lost)} deleted before they were read", Tone.WARN))
        is_running = self._job.is_running
        text = "live" if is_running else f"failed: {tail.error}" if tail.error else "stopped"
        tone = Tone.GOOD if is_running else Tone.BAD if tail.error else Tone.WARN
        return self._state(text, tone, None, parts, "stop" if is_running else "resume")

    def _state(
        self, text: str, tone: Tone, done: float | None, parts: Sequence[tuple[str, Tone]], can: str | None
    ) -> Data:
        notice = self._decoded.notice
        if notice:
            parts = [*parts, (f"shown as bytes, no answer of the schema registry: {clean(notice)}", Tone.WARN)]
        return {
            "state": clean(text),
            "tone": tone.name,
            "done": None if done is None else round(done, 4),
            "parts": [[each, its.name] for each, its in parts],
            "about": clean(self._job.request.about),
            "can": [can] if can else [],
        }


@channel("record")
class OneRecord(Channel):
    """One record: {"facts": [[name, text]], "headers": [[name, text]], "key", "value", "key_note", "value_note"}; times
    are "@ms", and notes name the schema of the key and the value, or say what is wrong with them.
    """

    PARAMS = frozenset({"topic", "partition", "offset", "format"})
    REQUIRED = frozenset({"topic", "partition", "offset"})

    @classmethod
    def check(cls, params: Params) -> dict[str, str]:
        found = super().check(params)
        for name, digits in (("partition", 9), ("offset", 19)):
            if not found[name].isascii() or not found[name].isdecimal() or len(found[name]) > digits:
                raise ClientError(
                    Failure.INVALID, f"{cls.name}: {name}={found[name][:40]!r}: a whole number is expected"
                )
        formats = [each.value for each in Format]
        if found.get("format", Format.AUTO.value) not in formats:
            raise ClientError(
                Failure.INVALID, f"{cls.name}: format={found['format'][:40]!r}: {', '.join(formats)} are allowed"
            )
        return found

    def __init__(self, hub: ClusterHub, params: Params, scope: Scope) -> None:
        super().__init__(hub, params, scope)
        # A record never changes.
        self._record: Record | None = None
        self._decoded = DecodedRows(self.session.decoder, params["topic"])

    def sources(self) -> Sequence[Source]:
        return [self._decoded]

    async def close(self) -> None:
        await self._decoded.close()

    async def state(self) -> Data | None:
        topic = self.params["topic"]
        key = TopicPartition(topic, int(self.params["partition"]))
        if self._record is None:
            self._record = await read_record(self.session.client, key, int(self.params["offset"]))
        whole = self._record
        shown = Format(self.params.get("format", Format.AUTO.value))
        (looked,) = await self._decoded.seen([Row(key.partition, whole)])
        view = await view_of(self.hub.masking, self.scope, topic, whole, looked, shown)
        seen = view.record
        headers = [[clean(name), line(value, shown)] for name, value in seen.headers[:HEADERS_SHOWN_MAX]]
        if len(seen.headers) > HEADERS_SHOWN_MAX:
            headers.append(["…", f"{count(len(seen.headers) - HEADERS_SHOWN_MAX)} more headers"])
        return {
            "facts": [
                ["partition", str(key.partition)],
                ["offset", count(whole.offset)],
                ["time", f"@{whole.timestamp}" if whole.timestamp >= 0 else "-"],
                ["UTC", when(whole.timestamp, utc=True)],
                ["ms since 1970", str(whole.timestamp)],
                ["key", "null" if whole.key is None else size(len(whole.key))],
                ["value", "null" if whole.value is None else size(len(whole.value))],
            ],
            "headers": headers,
            "key": await in_full(seen.key, shown),
            "value": await in_full(seen.value, shown),
            "key_note": clean(view.key_note),
            "value_note": clean(view.value_note),
            "masked": view.is_masked,
        }


def layout(context: Context, cluster: str, topic: str = "", **query: str) -> Component:
    hub = context.hub(cluster)
    if not topic:
        raise ClientError(
            Failure.INVALID, "the address names no topic: open the records of one from the list of topics"
        )
    reason = decide(context.identity(), Need(Role.VIEWER, cluster, (topic,), ()))
    if reason:
        raise ClientError(Failure.REFUSED, reason)
    request, problems = parse_request(topic, query)
    if request is not None and hub.masking is not None and not request.wanted.is_empty:
        hidden = hub.masking.may_search(context.identity().scope, topic, request.wanted)
        if hidden:
            problems = {next(name for name in FILTERS if getattr(request.wanted, name)): hidden}
    content: list[Component] = [_form(cluster, topic, query, problems)]
    if request is not None and not problems:
        job = hub.jobs.open(context.identity(), request)
        subject = {"topic": topic, "job": job.id}
        content += [
            panel(
                "Reading",
                "reading",
                "reading",
                cluster=cluster,
                params=subject,
                options={"job": job.id, "topic": topic, "live": request.is_live},
                class_name="panel-reading",
            ),
            table(
                "Records",
                "records",
                Records.COLUMNS,
                cluster=cluster,
                params=subject,
                noun="record",
                can_mark=True,
                has_filter=False,
                empty="No records so far.",
                actions=[
                    act_button(
                        "Produce marked again", ReproduceRecords.name, role=Role.OPERATOR, rows="marked", topic=topic
                    )
                ],
            ),
        ]
    return shell(
        context,
        cluster,
        "records",
        f"Records of {clean(topic)}",
        content,
        crumbs=[("Topics", page_path(cluster, "topics")), (clean(topic), page_path(cluster, "topic", topic=topic))],
        actions=[
            link("Settings", page_path(cluster, "topic-settings", topic=topic)),
            act_button("Produce", ProduceRecord.name, role=Role.OPERATOR, topic=topic),
        ],
    )


def _form(cluster: str, topic: str, query: Mapping[str, str], problems: Mapping[str, str]) -> Component:
    """The request as fields: assets/records.js creates them, and puts their values into the address."""
    fields = [
        {"name": field.name, "label": field.label, "value": query.get(field.name, field.value), "default": field.value,
         "hint": field.hint, "choices": list(field.choices)}
        for field in read_form(topic).fields
        if field.name != "live"
    ]  # fmt: skip
    given = {name: query[name] for name in NAMES if query.get(name) and name not in ("live", "format")}
    spec = {
        "cluster": cluster,
        "topic": topic,
        "fields": fields,
        "filters": [*FILTERS, "isolation", "format"],
        "problems": dict(problems),
        "presets": _PRESETS,
        "live": query.get("live") == "1",
        "export": _export_path(cluster, topic, given),
    }
    return html.Div(
        [html.H2("Records to read", className="hidden")],
        className="panel records-form",
        **attributes({"data-records-form": json.dumps(spec, ensure_ascii=False)}),
    )


def _export_path(cluster: str, topic: str, given: Mapping[str, str]) -> str:
    return f"/export?{urlencode({'cluster': cluster, 'topic': topic, **given})}"


PAGE = Page("records", "Records", layout, in_navigation=False, parent="topics")
