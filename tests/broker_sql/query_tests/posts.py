"""The conditions of a case on streams, tables and topics after its statements."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from broker_sql.catalog import SourceInfo
from broker_sql.statements import CreateSource, Mark
from broker_sql.types import Column, Kind
from tests.broker_sql.query_tests.cases import Case
from tests.broker_sql.query_tests.engine import Engine, parsed

_KINDS: Final = {
    Mark.NONE: Kind.VALUE,
    Mark.KEY: Kind.KEY,
    Mark.PRIMARY_KEY: Kind.KEY,
    Mark.HEADERS: Kind.HEADERS,
}
# In front of the names of internal topics, for the service id of the cases.
_INTERNAL: Final = "_confluent-ksql-some.ksql.service.idquery_"
Fail = Callable[[str, str], Exception]


def check_posts(case: Case, engine: Engine, fail: Fail) -> None:
    """Raises what `fail` makes. Names of internal topics are compared, their formats are not."""
    for wanted in case.post.get("sources", ()):
        source = engine.catalog.sources.get(wanted["name"])
        if source is None:
            raise fail("post", f"there is no {wanted['name']}")
        problem = _source_problem(source, wanted)
        if problem:
            raise fail("post", f"{source.name}: {problem}")
    topics = case.post.get("topics", {})
    pattern = topics.get("blacklist")
    internal = _internal_topics(engine)
    for name in (*engine.topics, *internal):
        if pattern and re.fullmatch(pattern, name):
            raise fail("post", f"topic {name} is not expected")
    for wanted in topics.get("topics", ()):
        name = wanted["name"]
        if name.startswith(_INTERNAL) and name not in internal:
            raise fail("post", f"there is no topic {name}; there are {', '.join(sorted(internal))}")
        source = engine.source_of(name)
        if source is None:
            continue
        problem = _topic_problem(source, wanted, engine)
        if problem:
            raise fail("post", f"topic {source.topic}: {problem}")


def _internal_topics(engine: Engine) -> set[str]:
    """Repartition topics and changelogs of all queries."""
    found = set()
    for query_id, planned in engine.queries.items():
        assert planned.topology is not None
        plan = planned.topology.plan
        names = [each.name for each in plan.repartition_topics]
        names += [f"{each.source_topic or each.name}-changelog" for each in plan.stores if each.logging]
        found |= {f"{_INTERNAL}{query_id}-{name}" for name in names}
    return found


def _source_problem(source: SourceInfo, wanted: Mapping[str, Any]) -> str | None:
    kind = source.kind.value.upper()
    if kind != wanted["type"].upper():
        return f"it is a {kind}, {wanted['type']} is expected"
    if "schema" in wanted:
        expected = columns_of(wanted["schema"])
        for part in Kind:
            found = [each for each in source.schema.columns if each.kind is part]
            if [(each.name, each.type) for each in found] != [
                (each.name, each.type) for each in expected if each.kind is part
            ]:
                return f"schema ({source.schema}), ({', '.join(map(str, expected))}) is expected"
    if "keyFormat" in wanted:
        problem = _key_format_problem(source, wanted["keyFormat"])
        if problem:
            return problem
    if "valueFormat" in wanted and wanted["valueFormat"] != source.value_format.name:
        return f"value format {source.value_format.name}, {wanted['valueFormat']} is expected"
    if "keyFeatures" in wanted and (wanted["keyFeatures"] == ["UNWRAP_SINGLES"]) != source.unwraps_key:
        return f"key features: unwraps_key is {source.unwraps_key}, {wanted['keyFeatures']} is expected"
    if "valueFeatures" in wanted and wanted["valueFeatures"] != _features(source.wrap_value):
        return f"value features {_features(source.wrap_value)}, {wanted['valueFeatures']} are expected"
    if "isSource" in wanted and wanted["isSource"] != source.is_read_only:
        return f"is_read_only is {source.is_read_only}"
    return None


def _features(wraps: bool | None) -> list[str]:
    return [] if wraps is None else ["WRAP_SINGLES"] if wraps else ["UNWRAP_SINGLES"]


def _key_format_problem(source: SourceInfo, wanted: Mapping[str, Any]) -> str | None:
    if wanted["format"] != source.key_format.name:
        return f"key format {source.key_format.name}, {wanted['format']} is expected"
    if "windowType" in wanted and (source.window is None or source.window.kind.name != wanted["windowType"].upper()):
        return f"window {source.window}, {wanted['windowType']} is expected"
    if wanted.get("windowSize") is not None and (
        source.window is None or source.window.size_ms != wanted["windowSize"]
    ):
        return f"window {source.window}, {wanted['windowSize']} is expected"
    return None


def columns_of(text: str) -> tuple[Column, ...]:
    """The columns of a schema as text, such as "ID BIGINT KEY, NAME STRING"."""
    kind = "TABLE" if "PRIMARY KEY" in text.upper() else "STREAM"
    (statement,) = parsed(f"CREATE {kind} X ({text}) WITH (kafka_topic='x', format='JSON');")
    assert isinstance(statement, CreateSource)
    return tuple(Column(str(each.name), each.type, _KINDS[each.mark]) for each in statement.elements)


def _topic_problem(source: SourceInfo, wanted: Mapping[str, Any], engine: Engine) -> str | None:
    for part, found in (("keyFormat", source.key_format), ("valueFormat", source.value_format)):
        if part in wanted and wanted[part]["format"] != found.name:
            return f"{part} {found.name}, {wanted[part]['format']} is expected"
    if wanted.get("partitions") is not None and engine.partitions.get(source.topic) != wanted["partitions"]:
        return f"{engine.partitions.get(source.topic)} partitions, {wanted['partitions']} are expected"
    return None
