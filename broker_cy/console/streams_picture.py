"""The topology of an application as a picture: boxes in layers from left to right, and lines between them.

With the plan of an instance, each source, processor, sink and store has a box, and each sub-topology a band: one below
the other, with the internal topics between them. Without a plan, each sub-topology has one box, with the topics and
changelogs that the group knows. The layers are those of the longest path from a source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from broker_cy.admin.streams_applications import StreamsApplication
from broker_cy.console.streams import ApplicationView
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count, share, short
from broker_cy.reporting.tone import Tone

BOXES_MAX: Final = 400
"""A larger topology is drawn by sub-topologies."""
BOX_WIDTH, BOX_HEIGHT = 212, 62
COLUMN_GAP, ROW_GAP, MARGIN = 36, 16, 12
# Above each band is its title, and room for the lines of internal topics.
BAND_TITLE, BAND_GAP = 26, 30
# Longer texts are cut here; pages cut them to the width of the box.
TEXT_CHARS = 100
SWEEPS: Final = 4
SOURCE, PROCESSOR, SINK, STORE, PART = "source", "processor", "sink", "store", "part"
# Steps of a plan end with the version of their meaning.
_VERSION: Final = re.compile(r"[-./]?v?\d+$")


class Box(NamedTuple):
    """A box at (x, y), which is BOX_WIDTH by BOX_HEIGHT. `topic` is the topic that it is about, empty for others."""

    id: str
    kind: str
    title: str
    name: str
    figures: str
    tone: Tone
    x: int
    y: int
    topic: str


class Line(NamedTuple):
    """A line from one box to another. `kind` is records, topic (an internal topic between sub-topologies) or store."""

    begin: str
    end: str
    kind: str


class Band(NamedTuple):
    """The title of a sub-topology at the height `y`."""

    title: str
    y: int


class Picture(NamedTuple):
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    bands: tuple[Band, ...]
    width: int
    height: int
    note: str


@dataclass(slots=True)
class _Node:
    id: str
    kind: str
    title: str
    name: str = ""
    figures: str = ""
    tone: Tone = Tone.PLAIN
    topic: str = ""
    layer: int = 0
    # Boxes in front of it.
    parents: list[str] = field(default_factory=list)


def picture_of(view: ApplicationView) -> Picture:
    """The picture of an application; without boxes if nothing is known of its topology."""
    made = _of_plan(view) if view.plan is not None else None
    if made is None:
        made = _of_group(view.application)
        note = "No instance reports the plan, so each sub-topology is one box." if made[0] else ""
    else:
        counts = any(state.nodes for state in view.application.states.values())
        note = "" if counts else "With metrics.recording.level=DEBUG, processors have rates too."
    nodes, lines = made
    return _placed(nodes, lines, note, has_bands=view.plan is not None and not any(node.kind == PART for node in nodes))


class _Figures:
    """The figures of an application by topic, store and processor."""

    def __init__(self, of: StreamsApplication) -> None:
        # Without an instance, nothing is processed; one that reports no rates may process.
        self._is_stopped = not of.description.members
        self.lags: dict[str, int] = {}
        for row in of.inputs:
            if row.lag is not None:
                self.lags[row.topic] = self.lags.get(row.topic, 0) + row.lag
        self.consumed: dict[str, float] = {}
        self.produced: dict[str, float] = {}
        self.nodes: dict[str, float] = {}
        for state in of.states.values():
            for each in state.consumed:
                self.consumed[each.topic] = self.consumed.get(each.topic, 0.0) + each.records_per_s
            for each in state.produced:
                self.produced[each.topic] = self.produced.get(each.topic, 0.0) + each.records_per_s
            for node, rate in state.nodes.items():
                self.nodes[node] = self.nodes.get(node, 0.0) + rate
        self.stores = {row.store: row for row in of.stores}

    def of_source(self, topics: Sequence[str]) -> tuple[str, Tone]:
        lags = [self.lags[topic] for topic in topics if topic in self.lags]
        rates = [self.consumed[topic] for topic in topics if topic in self.consumed]
        texts = [f"{short(sum(rates))}/s"] if rates else []
        texts += [f"lag {count(sum(lags))}"] if lags else []
        stands_still = self._is_stopped or (bool(rates) and not sum(rates))
        return ", ".join(texts), Tone.WARN if sum(lags) and stands_still else Tone.PLAIN

    def of_sink(self, topic: str) -> str:
        return f"{short(self.produced[topic])}/s" if topic in self.produced else ""

    def of_node(self, name: str) -> str:
        return f"{short(self.nodes[name])}/s" if name in self.nodes else ""

    def of_store(self, name: str) -> tuple[str, Tone]:
        row = self.stores.get(name)
        if row is None:
            return "", Tone.PLAIN
        texts = [f"{count(row.rows)} rows"] if row.rows is not None else []
        if row.restored is not None:
            return ", ".join([*texts, f"restored {share(row.restored)}"]), Tone.NOTED
        return ", ".join(texts), Tone.PLAIN


def _of_plan(view: ApplicationView) -> tuple[list[_Node], list[Line]] | None:
    """The boxes of a plan; None if it has more than BOXES_MAX, or is not one that can be read here."""
    try:
        topology = view.plan["topology"]
        nodes, stores = list(topology["nodes"]), list(topology["stores"])
        internal = {each["name"] for each in topology["repartition_topics"]}
        if len(nodes) + len(stores) > BOXES_MAX:
            return None
        return _Plan(view.application, internal, stores).boxes(nodes)
    except (KeyError, TypeError, AttributeError):
        return None


class _Plan:
    def __init__(self, of: StreamsApplication, internal: set[str], stores: Sequence[Any]) -> None:
        self._name, self._internal, self._stores = of.name, internal, stores
        self._figures = _Figures(of)
        self._nodes: list[_Node] = []
        self._lines: list[Line] = []

    def _topic(self, name: str) -> str:
        """The name of a topic in the cluster. Titles have those of internal topics without the application."""
        return f"{self._name}-{name}" if name in self._internal else name

    def boxes(self, nodes: Iterable[Any]) -> tuple[list[_Node], list[Line]]:
        readers: dict[str, str] = {}
        writers: list[tuple[str, str]] = []
        users: dict[str, list[str]] = {}
        for each in nodes:
            name, kind = each["name"], each["is"]
            made = _Node(name, PROCESSOR, "", name)
            if kind == "Source":
                topics = [self._topic(topic) for topic in each["topics"]] or [str(each.get("pattern"))]
                made.kind, made.title = SOURCE, ", ".join(each["topics"] or topics)
                made.topic = topics[0] if len(topics) == 1 else ""
                made.figures, made.tone = self._figures.of_source(topics)
                readers |= dict.fromkeys(each["topics"], name)
            else:
                made.parents = list(each["parents"])
                self._lines += [Line(parent, name, "records") for parent in made.parents]
                if kind == "Sink":
                    topic = each.get("topic")
                    made.kind, made.title = SINK, topic or "topic by record"
                    made.topic = self._topic(topic) if topic else ""
                    made.figures = self._figures.of_sink(made.topic)
                    writers += [(name, topic)] if topic in self._internal else []
                else:
                    step = each["step"]
                    made.title = _VERSION.sub("", str(step["is"])).replace("_", " ").replace("-", " ")
                    made.figures = self._figures.of_node(name)
                    for store in each["stores"]:
                        users.setdefault(store, []).append(name)
            self._nodes.append(made)
        by_id = {node.id: node for node in self._nodes}
        for writer, topic in writers:
            if topic in readers and readers[topic] in by_id:
                self._lines.append(Line(writer, readers[topic], "topic"))
        self._add_stores(users)
        return self._nodes, self._lines

    def _add_stores(self, users: Mapping[str, Sequence[str]]) -> None:
        for store in self._stores:
            name = store["name"]
            box = f"store {name}"
            figures, tone = self._figures.of_store(name)
            kind = store["kind"]
            made = _Node(box, STORE, name, str(kind["value"] if isinstance(kind, dict) else kind), figures, tone)
            self._nodes.append(made)
            self._lines += [Line(user, box, "store") for user in users.get(name, ())]


def _of_group(of: StreamsApplication) -> tuple[list[_Node], list[Line]]:
    """A box for each sub-topology, and for each of its topics and changelogs."""
    nodes: dict[str, _Node] = {}
    lines: list[Line] = []
    figures = _Figures(of)
    topology = of.topology
    for part in () if topology is None else topology.subtopologies:
        box = f"part {part.subtopology_id}"
        tasks = [row for row in of.tasks if row.task.split("_")[0] == part.subtopology_id and row.role == "active"]
        made = nodes[box] = _Node(box, PART, f"sub-topology {part.subtopology_id}", f"{len(tasks)} active tasks")
        for topic in (*part.source_topics, *(each.name for each in part.repartition_sources)):
            text, tone = figures.of_source([topic])
            source = nodes.setdefault(f"topic {topic}", _Node(f"topic {topic}", SOURCE, topic, topic=topic))
            source.figures, source.tone = text, tone
            made.parents.append(source.id)
            lines.append(Line(source.id, box, "records"))
        for topic in part.repartition_sinks:
            sink = nodes.setdefault(f"topic {topic}", _Node(f"topic {topic}", SOURCE, topic, topic=topic))
            sink.parents.append(box)
            lines.append(Line(box, sink.id, "topic"))
        for row in of.stores:
            if row.subtopology == part.subtopology_id:
                text, tone = figures.of_store(row.store)
                nodes[f"store {row.store}"] = _Node(f"store {row.store}", STORE, row.store, row.kind or "", text, tone)
                lines.append(Line(box, f"store {row.store}", "store"))
    return list(nodes.values()), lines


# ---- places


def _placed(nodes: Sequence[_Node], lines: Sequence[Line], note: str, *, has_bands: bool) -> Picture:
    _set_layers(nodes, lines)
    boxes: list[Box] = []
    bands: list[Band] = []
    y = MARGIN
    for number, members in enumerate(_parts(nodes, lines) if has_bands else [list(nodes)]):
        if has_bands:
            bands.append(Band(f"sub-topology {number}", y))
            y += BAND_TITLE
        columns: dict[int, list[_Node]] = {}
        for node in members:
            columns.setdefault(node.layer, []).append(node)
        rows = _ordered(columns, lines)
        boxes += [_box(node, y + rows[node.id] * (BOX_HEIGHT + ROW_GAP)) for node in members]
        y += (max(rows.values(), default=-1) + 1) * (BOX_HEIGHT + ROW_GAP) - ROW_GAP + BAND_GAP
    width = max((box.x for box in boxes), default=0) + BOX_WIDTH + MARGIN
    height = max((box.y for box in boxes), default=0) + BOX_HEIGHT + MARGIN
    return Picture(tuple(boxes), tuple(lines), tuple(bands), width, height, note)


def _box(node: _Node, y: int) -> Box:
    x = MARGIN + node.layer * (BOX_WIDTH + COLUMN_GAP)
    title, name = _cut(node.title, TEXT_CHARS), _cut(node.name, TEXT_CHARS)
    return Box(node.id, node.kind, title, name, node.figures, node.tone, x, y, node.topic)


def _parts(nodes: Sequence[_Node], lines: Sequence[Line]) -> list[list[_Node]]:
    """The sub-topologies: boxes that are connected by records or stores, in the order of the first one of each, which
    is Kafka's numbering.
    """
    part = {node.id: node.id for node in nodes}

    def root(name: str) -> str:
        while part[name] != name:
            part[name] = name = part[part[name]]
        return name

    for line in lines:
        if line.kind != "topic" and line.begin in part and line.end in part:
            part[root(line.end)] = root(line.begin)
    found: dict[str, list[_Node]] = {}
    for node in nodes:
        found.setdefault(root(node.id), []).append(node)
    return list(found.values())


def _set_layers(nodes: Sequence[_Node], lines: Sequence[Line]) -> None:
    """The longest path from a box without parents; a circle of topics is cut at its first box. Stores are beside the
    last processor that uses them.
    """
    by_id = {node.id: node for node in nodes}
    done: set[str] = set()
    for node in nodes:
        stack = [(node, iter(node.parents))]
        seen = {node.id}
        while stack:
            current, rest = stack[-1]
            parent = next((by_id[each] for each in rest if each in by_id and each not in done | seen), None)
            if parent is not None:
                seen.add(parent.id)
                stack.append((parent, iter(parent.parents)))
                continue
            stack.pop()
            known = [by_id[each].layer + 1 for each in current.parents if each in done]
            current.layer = max(known, default=0)
            done.add(current.id)
    for line in lines:
        if line.kind == "store" and line.begin in by_id and line.end in by_id:
            store = by_id[line.end]
            store.layer = max(store.layer, by_id[line.begin].layer)


def _ordered(columns: Mapping[int, list[_Node]], lines: Sequence[Line]) -> dict[str, int]:
    """The row of each box: those of a column in the order of the middle of their neighbours, without gaps above."""
    near: dict[str, list[str]] = {}
    for line in lines:
        near.setdefault(line.begin, []).append(line.end)
        near.setdefault(line.end, []).append(line.begin)
    rows = {node.id: row for column in columns.values() for row, node in enumerate(column)}

    def middle(node: _Node) -> float:
        found = [rows[each] for each in near.get(node.id, ()) if each in rows]
        return sum(found) / len(found) if found else rows[node.id]

    for sweep in range(SWEEPS):
        for layer in sorted(columns, reverse=sweep % 2 == 1):
            free = 0
            # A store stands below the processors of its column that have the same place.
            for node in sorted(columns[layer], key=lambda each: (middle(each), each.kind == STORE, rows[each.id])):
                free = max(free, round(middle(node)) if sweep == SWEEPS - 1 else free)
                rows[node.id] = free
                free += 1
    return rows


def _cut(text: str, most: int) -> str:
    text = clean(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"
