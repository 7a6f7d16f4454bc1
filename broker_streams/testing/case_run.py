"""Runs tests of a file through TopologyTestDriver, and compares what they wrote with what is expected."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from broker_streams.kernel.build import resolved
from broker_streams.kernel.errors import StreamsError
from broker_streams.kernel.settings import TaskSettings
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.topology import Sink, Source, Topology
from broker_streams.records import NO_HEADERS
from broker_streams.registry.opening import open_registry
from broker_streams.serdes import Serde, SerdeError, names
from broker_streams.serdes.schemas.binding import with_registry
from broker_streams.testing.case_file import Case, CaseError, Step
from broker_streams.testing.case_values import Shown, canonical, headers_of, headers_shown, shown, typed
from broker_streams.testing.topology_test_driver import TopologyTestDriver

SAME: Final = " "
MISSING: Final = "-"
UNEXPECTED: Final = "+"
_LISTED: Final = (
    StoreKind.KEY_VALUE,
    StoreKind.TIMESTAMPED_KEY_VALUE,
    StoreKind.WINDOW,
    StoreKind.TIMESTAMPED_WINDOW,
    StoreKind.SESSION,
    StoreKind.VERSIONED_KEY_VALUE,
)


@dataclass(frozen=True)
class Difference:
    """A topic or store (`kind`) that differs. `lines`: SAME, MISSING or UNEXPECTED with each record, in order."""

    kind: str
    name: str
    lines: tuple[tuple[str, Shown], ...]


@dataclass
class CaseResult:
    """`topics` and `stores` are the answers; `failure` says why there are none, or no error came that was expected."""

    case: Case
    topics: dict[str, list[Shown]] = field(default_factory=dict)
    stores: dict[str, list[Shown]] | None = None
    differences: list[Difference] = field(default_factory=list)
    failure: str | None = None
    # Whether the application did as expected, so that its answers may be the expected ones.
    has_answers: bool = False

    @property
    def passed(self) -> bool:
        return not self.differences and self.failure is None


def run_case(topology: Topology, config: Mapping[str, Any], case: Case) -> CaseResult:
    """Raises CaseError: a step or an expected answer is about a topic or store that the topology lacks, or a
    value that its serde refuses.
    """
    config = {**config, **case.settings}
    result = CaseResult(case)
    try:
        serdes = Serdes(topology, config, case.topics)
        driver = TopologyTestDriver(topology, config, case.clock_ms)
    except StreamsError as error:
        result.failure = f"the application cannot start: {_reason(error)}"
        return result
    with driver:
        failed: str | None = None
        try:
            for step in case.steps:
                _take(driver, serdes, step)
        except StreamsError as error:
            failed = _reason(error)
        if case.error is None and failed is not None:
            result.failure = f"the application ended with an error: {failed}"
        elif case.error is not None and case.error not in (failed or ""):
            result.failure = f"an error with {case.error!r} is expected; there was {failed or 'none'}"
        # Before the driver is closed: what processors write at that time is not compared.
        result.topics = _written(driver, serdes, topology, config, case)
        result.stores = _rows_of_stores(driver, topology, case)
    result.has_answers = result.failure is None
    if case.expect is None and case.stores is None and case.error is None and result.has_answers:
        result.failure = "nothing is expected: write `expect`, or let --update write the answers"
    result.differences = list(_compared(case, result))
    return result


def _reason(error: StreamsError) -> str:
    return f"{error}: {error.__cause__}" if error.__cause__ is not None else str(error)


def _take(driver: TopologyTestDriver, serdes: Serdes, step: Step) -> None:
    if step.advance_ms is not None:
        driver.advance_wall_clock_time(step.advance_ms)
        return
    record, topic = step.record, step.topic
    headers = headers_of(record["headers"]) if record.get("headers") else NO_HEADERS
    try:
        key_serde, value_serde = serdes.of(topic)
        key = key_serde.serialize(topic, typed(key_serde, record["key"], record.get("window")), headers)
        value = value_serde.serialize(topic, typed(value_serde, record["value"]), headers)
        driver.pipe_raw(topic, key, value, record.get("at", driver.wall_clock_time_ms), headers)
    except StreamsError:
        raise
    except ValueError as error:
        raise CaseError(f"line {step.line}: {error}") from error


class Serdes:
    """The serdes of topics: those of a file, or of the sources and sinks of the topology."""

    def __init__(self, topology: Topology, config: Mapping[str, Any], given: Mapping[str, Mapping[str, str]]) -> None:
        """Raises CaseError: a name in `given` is no serde."""
        self._topology = topology
        known = {"application.id": "topology-test-driver", **config}
        self._settings = TaskSettings.of(known, open_registry(known))
        self._given: dict[str, dict[str, Serde | None]] = {}
        for topic, parts in given.items():
            try:
                self._given[topic] = {part: names.of(name) for part, name in parts.items()}
            except ValueError as error:
                raise CaseError(f"topic {topic}: {error}") from None

    def of(self, topic: str) -> tuple[Serde, Serde]:
        """Raises CaseError: nothing says how the topic is read."""
        given = self._given.get(topic, {})
        node = self._node(topic)
        found = []
        for part in ("key", "value"):
            serde = given.get(part)
            if serde is None and node is not None:
                try:
                    serde = resolved(getattr(node, f"{part}_serde"), self._settings, node.name, part)
                except StreamsError as error:
                    raise CaseError(str(error)) from None
            if serde is None:
                raise CaseError(
                    f"no source or sink of the topology has topic {topic}: name its serdes, as"
                    f" `topics: {{{topic}: {{key: STRING, value: JSON}}}}`"
                )
            try:
                found.append(with_registry(serde, self._settings.registry, is_key=part == "key"))
            except ValueError as error:
                raise CaseError(f"topic {topic}: {error}") from None
        return found[0], found[1]

    def _node(self, topic: str) -> Source | Sink | None:
        application_id = self._settings.application_id
        chosen: list[Sink] = []
        for node in self._topology.nodes:
            if isinstance(node, Source):
                if topic in (self._topology.decorated(each, application_id) for each in node.topics):
                    return node
                if node.pattern is not None and re.fullmatch(node.pattern, topic):
                    return node
            elif isinstance(node, Sink):
                if node.topic is None:
                    chosen.append(node)
                elif self._topology.decorated(node.topic, application_id) == topic:
                    return node
        # A sink with a function for its topic writes all topics that no other node has.
        return chosen[0] if len(chosen) == 1 else None


def internal_topics(topology: Topology, application_id: str) -> set[str]:
    """The repartition and changelog topics of an application."""
    found = {topology.decorated(each.name, application_id) for each in topology.repartition_topics}
    for store in topology.stores:
        if store.source_topic is None and (changelog := topology.changelog(store, application_id)) is not None:
            found.add(changelog)
    return found


def _written(
    driver: TopologyTestDriver, serdes: Serdes, topology: Topology, config: Mapping[str, Any], case: Case
) -> dict[str, list[Shown]]:
    """The records of each topic, of internal ones only if they are expected."""
    application_id = str(config.get("application.id") or "topology-test-driver")
    internal = internal_topics(topology, application_id)
    wanted = set(case.expect or {})
    found: dict[str, list[Shown]] = {topic: [] for topic in case.expect or {}}
    for topic, _, key, value, timestamp, headers in driver.produced:
        if topic in internal and topic not in wanted:
            continue
        key_serde, value_serde = serdes.of(topic)
        try:
            read = key_serde.deserialize(topic, key, headers), value_serde.deserialize(topic, value, headers)
        except SerdeError as error:
            raise CaseError(f"a record of topic {topic} cannot be read with its serdes: {error}") from None
        found.setdefault(topic, []).append(shown(*read, timestamp, headers))
    return found


def _rows_of_stores(driver: TopologyTestDriver, topology: Topology, case: Case) -> dict[str, list[Shown]] | None:
    if case.stores is None:
        return None
    by_name = {each.name: each for each in topology.stores}
    for name in case.stores:
        if name not in by_name or by_name[name].kind not in _LISTED:
            known = ", ".join(name for name, each in by_name.items() if each.kind in _LISTED) or "none"
            raise CaseError(f"line {case.line}: no rows of a store {name}; the stores are {known}")
    # `stores` without names asks for all of them.
    wanted = list(case.stores) or [name for name, each in by_name.items() if each.kind in _LISTED]
    return {name: rows_of(driver.get_state_store(name), by_name[name]) for name in wanted}


def rows_of(store: Any, of: Store) -> list[Shown]:
    """The rows of a store; of a versioned store the latest ones."""
    if of.kind is StoreKind.SESSION:
        rows: Iterable[Any] = store.fetch_keys(None, None)
    elif of.kind is StoreKind.VERSIONED_KEY_VALUE:
        rows = ((key, store.get(key)) for key in store.latest_keys())
    else:
        rows = store.all()
    return [shown(key, value) for key, value in rows]


# --- comparing


def _compared(case: Case, result: CaseResult) -> Iterator[Difference]:
    if case.expect is not None:
        for topic, written in result.topics.items():
            lines = _in_order(case.expect.get(topic, []), written)
            if any(mark != SAME for mark, _ in lines):
                yield Difference("topic", topic, lines)
    for store, rows in (result.stores or {}).items():
        if not case.stores:
            break
        lines = _by_key(case.stores.get(store, []), rows)
        if any(mark != SAME for mark, _ in lines):
            yield Difference("store", store, lines)


def _in_order(expected: list[Shown], written: list[Shown]) -> tuple[tuple[str, Shown], ...]:
    old, new = [_identity(each) for each in expected], [_identity(each) for each in written]
    lines: list[tuple[str, Shown]] = []
    for kind, low, high, begin, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            for want, found in zip(expected[low:high], written[begin:end], strict=True):
                lines += _pair(want, found)
        else:
            lines += [(MISSING, each) for each in expected[low:high]]
            lines += [(UNEXPECTED, _like(each, expected)) for each in written[begin:end]]
    return tuple(lines)


def _by_key(expected: list[Shown], rows: list[Shown]) -> tuple[tuple[str, Shown], ...]:
    """Rows of a store have no order that a test could expect."""
    left: dict[str, list[Shown]] = {}
    for row in rows:
        left.setdefault(_identity(row), []).append(row)
    lines: list[tuple[str, Shown]] = []
    for want in expected:
        theirs = left.get(_identity(want))
        lines += _pair(want, theirs.pop(0)) if theirs else [(MISSING, want)]
    lines += [(UNEXPECTED, _like(row, expected)) for theirs in left.values() for row in theirs]
    # The row that is missing stands beside the one that has its key.
    return tuple(sorted(lines, key=lambda line: canonical([line[1]["key"], line[1].get("window")])))


def _pair(want: Shown, found: Shown) -> list[tuple[str, Shown]]:
    """Key and value are equal; the time and the headers are compared if they are expected."""
    if ("at" not in want or want["at"] == found.get("at")) and (
        "headers" not in want or _headers(want) == _headers(found)
    ):
        return [(SAME, want)]
    return [(MISSING, want), (UNEXPECTED, _like(found, [want]))]


def _headers(of: Shown) -> str:
    given = of.get("headers") or {}
    return canonical(headers_shown(headers_of(given)))


def _identity(of: Shown) -> str:
    return canonical([of["key"], of.get("window"), of["value"]])


def _like(found: Shown, expected: list[Shown]) -> Shown:
    """A record without the fields that no expected one has."""
    if not expected:
        return found
    kept = {name for each in expected for name in each} | {"key", "window", "value"}
    return {name: value for name, value in found.items() if name in kept}
