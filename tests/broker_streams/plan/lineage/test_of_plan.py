"""Lineage along the steps of a topology."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from broker_streams import (
    JSON,
    STRING,
    JoinWindows,
    Processor,
    Record,
    SessionWindows,
    Store,
    StoreKind,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    TopologyError,
    declared_lineage,
)
from broker_streams.cli import command
from broker_streams.plan.lineage.columns import Output, Use, to_json, to_text
from broker_streams.plan.lineage.declared import LineageError
from broker_streams.plan.lineage.of_plan import lineage_of
from broker_streams.plan.steps import Step
from tests.broker_streams.oracle.families.all import FAMILIES, spec_of
from tests.broker_streams.oracle.ours import answer_of, topology_of


def outputs(builder: StreamsBuilder) -> dict[str, Output]:
    return {each.topic: each for each in lineage_of(builder.build().plan).outputs}


def texts(of: Any) -> list[str]:
    return [f"{each.column}" + ("" if each.use is Use.IDENTITY else f" {each.use.value}") for each in of]


def columns(output: Output) -> dict[str, list[str]]:
    return {".".join((each.column.part, *each.column.path)): texts(each.origins) for each in output.columns}


def test_stateless_steps() -> None:
    """If this fails, lineage is lost at a filter, a branch, a merge or a repartition topic."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=STRING, value=JSON)
    more = builder.stream("more", key=STRING, value=JSON).filter_not(lambda key, value: value["old"])
    keyed = orders.merge(more).select_key(lambda key, value: value["customer"]).repartition(key=STRING, value=JSON)
    branches = keyed.split(name="b-").branch(lambda key, value: value["paid"], name="paid").default_branch(name="rest")
    branches["b-paid"].flat_map_values(lambda value: [each["id"] for each in value["items"]]).to("items")
    branches["b-rest"].to("rest")
    found = outputs(builder)
    assert columns(found["items"]) == {
        "key": ["more.value.customer", "orders.value.customer"],
        "value": ["more.value.items.id", "orders.value.items.id"],
    }
    decided = ["more.value.old FILTER", "more.value.paid FILTER", "orders.value.paid FILTER"]
    assert texts(found["items"].decided_by) == texts(found["rest"].decided_by) == decided
    assert columns(found["rest"])["value"] == ["more.value", "orders.value"]


def test_aggregates_and_windows() -> None:
    """If this fails, an aggregate comes from columns that it does not add, or from none."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=STRING, value=JSON)
    orders.group_by_key().windowed_by(TimeWindows.of("1m")).count().suppress(
        Suppressed.until_window_closes()
    ).to_stream().map(lambda window, count: (window.key, {"n": count, "at": window.window.end_ms})).to("counts")
    orders.group_by_key().windowed_by(SessionWindows.of("1m")).aggregate(
        lambda: {"sum": 0, "last": None},
        lambda key, value, total: {"sum": total["sum"] + value["price"], "last": value["at"]},
        lambda key, one, other: {"sum": one["sum"] + other["sum"], "last": other["last"]},
    ).to_stream().to("sums")
    found = outputs(builder)
    assert columns(found["counts"]) == {
        "key": ["orders.key"],
        "value.n": ["orders.records AGGREGATION"],
        "value.at": ["orders.timestamp TRANSFORMATION"],
    }
    assert texts(found["counts"].decided_by) == ["orders.key GROUP_BY", "orders.timestamp WINDOW"]
    assert columns(found["sums"])["value.sum"] == ["orders.value.price AGGREGATION"]
    assert columns(found["sums"])["value.last"] == ["orders.value.at"]
    assert columns(found["sums"])["key.key"] == ["orders.key"]


def test_joins() -> None:
    """If this fails, lineage ends at the store of a join."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=STRING, value=JSON)
    payments = builder.stream("payments", key=STRING, value=JSON)
    customers = builder.table("customers", key=STRING, value=JSON).map_values(lambda value: value["person"])
    regions = builder.global_table("regions", key=STRING, value=JSON)
    items = builder.table("items", key=STRING, value=JSON)
    orders.join(payments, lambda order, paid: {"id": order["id"], "paid": paid["sum"]}, JoinWindows.of("1m")).to("paid")
    orders.left_join(customers, lambda order, person: {**order, "name": person and person["name"]}).to("named")
    orders.join(regions, lambda key, order: order["region"], lambda order, region: region["tax"]).to("taxes")
    items.join(customers, lambda item, person: [item["id"], person["name"]]).to_stream().to("both")
    items.join(
        customers, lambda item, person: {"id": item["id"], "owner": person["name"]}, foreign_key=lambda v: v["owner"]
    ).to_stream().to("owners")
    found = outputs(builder)
    assert columns(found["paid"]) == {
        "key": ["orders.key", "payments.key"],
        "value.id": ["orders.value.id"],
        "value.paid": ["payments.value.sum"],
    }
    assert columns(found["named"])["value.name"] == [
        "customers.value.person.name",
        "customers.value.person CONDITIONAL",
    ]
    assert columns(found["named"])["value.*"] == ["orders.value.*"]
    assert texts(found["named"].decided_by) == ["customers.key JOIN", "orders.key JOIN"]
    assert columns(found["taxes"]) == {"key": ["orders.key"], "value": ["regions.value.tax"]}
    assert texts(found["taxes"].decided_by) == ["orders.value.region JOIN", "regions.key JOIN"]
    assert columns(found["both"])["value"] == ["customers.value.person.name", "items.value.id"]
    assert columns(found["owners"]) == {
        "key": ["items.key"],
        "value.id": ["items.value.id"],
        "value.owner": ["customers.value.person.name"],
    }
    assert texts(found["owners"].decided_by) == ["customers.key JOIN", "items.value.owner JOIN"]


def test_tables_by_another_key() -> None:
    """If this fails, an aggregate of a table loses the columns of its rows."""
    builder = StreamsBuilder()
    table = builder.table("orders", key=STRING, value=JSON).filter(lambda key, value: value["open"])
    grouped = table.group_by(lambda key, value: (value["customer"], value["price"]), key=STRING, value=JSON)
    grouped.reduce(lambda total, price: total + price, lambda total, price: total - price).to_stream().to("spent")
    found = outputs(builder)["spent"]
    assert columns(found)["value"] == ["orders.value.price", "orders.value.price AGGREGATION"]
    assert texts(found.decided_by) == ["orders.value.open FILTER", "orders.value.customer GROUP_BY"]


class Deduplicated(Processor):
    def process(self, record: Record) -> None:
        self.context.forward(record)


def test_processors_are_opaque_unless_they_declare_it() -> None:
    """If this fails, a processor hides that a column flows through it."""
    builder = StreamsBuilder()
    builder.add_state_store(Store("rates", StoreKind.KEY_VALUE, STRING, JSON))
    builder.stream("rates", key=STRING, value=JSON).process(Deduplicated, "rates").foreach(print)
    orders = builder.stream("orders", key=STRING, value=JSON)
    orders.process_values(Deduplicated, "rates").to("opaque")

    @declared_lineage(key="value.id", value={"*": "value", "price": ["value.price", "key"]}, conditions=["value.seen"])
    class Declared(Deduplicated):
        pass

    orders.process(Declared).to("declared")
    lineage = lineage_of(builder.build().plan)
    found = {each.topic: each for each in lineage.outputs}
    assert columns(found["opaque"])["key"] == ["orders.key"]
    assert columns(found["opaque"])["value"] == [
        f"{topic}.{part} TRANSFORMATION" for topic in ("orders", "rates") for part in ("key", "value")
    ]
    assert [each.is_opaque for each in found["opaque"].columns] == [False, True]
    assert {each.function for each in lineage.opaque} == {"Deduplicated"}
    assert columns(found["declared"]) == {
        "key": ["orders.value.id TRANSFORMATION", "orders.value.seen CONDITIONAL"],
        "value.price": [
            "orders.key TRANSFORMATION",
            "orders.value.price TRANSFORMATION",
            "orders.value.seen CONDITIONAL",
        ],
        "value.*": ["orders.value.*", "orders.value.seen CONDITIONAL"],
    }
    assert "Deduplicated" in to_text(lineage)
    assert json.loads(to_json(lineage))["opaque"][0]["reason"] == "it is a processor"


def test_a_declared_lineage_names_arguments() -> None:
    """If this fails, a wrong declaration is silently an empty lineage."""
    builder = StreamsBuilder()
    declared = declared_lineage(value="order.price")(lambda value: hash(value["price"]))
    builder.stream("orders", key=STRING, value=JSON).map_values(declared).to("out")
    with pytest.raises(LineageError, match=r"names 'order\.price'; its arguments are value"):
        lineage_of(builder.build().plan)
    builder = StreamsBuilder()
    declared = declared_lineage(key="value")(lambda value: value)
    builder.stream("orders", key=STRING, value=JSON).map_values(declared).to("out")
    with pytest.raises(LineageError, match="has a key; its result is a value"):
        lineage_of(builder.build().plan)


def test_each_step_has_a_rule() -> None:
    """If this fails, an application with a new kind of step has no lineage, but an error."""
    from broker_streams.plan.lineage.of_plan import _RULES

    lineage_of(_smallest().build().plan)
    assert {each.__name__ for each in Step.kinds.values()} == {each.__name__ for each in _RULES}


def _smallest() -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("in", key=STRING, value=STRING).to("out")
    return builder


@pytest.mark.parametrize("family", FAMILIES)
def test_random_topologies_have_a_lineage(family: str) -> None:
    """If this fails, some topology ends describe --lineage with an error, or an output without its columns."""
    for seed in range(3):
        try:
            topology = topology_of(spec_of(family, seed), {}).plan
        except TopologyError:
            # Some are made to be refused.
            continue
        lineage = lineage_of(topology)
        for output in lineage.outputs:
            assert {each.column.part for each in output.columns} >= {"key", "value"}, output
            assert all(each.is_opaque or each.origins or each.constant for each in output.columns), output


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_outputs_change_only_with_columns_that_they_name(family: str) -> None:
    """The slow twin: the driver runs a random topology, and again with other keys or values of one input topic. If this
    fails, lineage lacks a column that an output depends on.
    """
    logging.disable()
    for seed in range(4):
        spec = spec_of(family, seed)
        before = answer_of(spec)
        if "error" in before:
            continue
        lineage = lineage_of(topology_of(spec, spec.get("config", {})).plan)
        for topic in {each["topic"] for each in spec["inputs"] if "topic" in each}:
            for part in ("key", "value"):
                inputs = [_other(each, part) if each.get("topic") == topic else each for each in spec["inputs"]]
                after = answer_of({**spec, "inputs": inputs})
                for output in lineage.outputs if "error" not in after else ():
                    if written(before, output.topic) != written(after, output.topic):
                        origins = [*output.decided_by, *(one for each in output.columns for one in each.origins)]
                        named = {(each.column.topic, each.column.part) for each in origins}
                        assert (topic, part) in named, f"{family} {seed}: {output.topic}"
    logging.disable(logging.NOTSET)


def _other(given: dict[str, Any], part: str) -> dict[str, Any]:
    value = given[part]
    return {**given, part: value + "~" if isinstance(value, str) else value + 1 if isinstance(value, int) else value}


def written(answer: dict[str, Any], topic: str) -> list[Any]:
    """Keys and values of the records of a topic."""
    return [(key, value) for each in answer["records"] for name, _, key, value, *_ in each if name == topic]


def test_describe_shows_the_lineage(tmp_path: Path) -> None:
    """If this fails, the command does not show what the application's functions do, or shows what they print."""
    path = tmp_path / "app.py"
    path.write_text(
        "from broker_streams import JSON, STRING, StreamsBuilder\n"
        "builder = StreamsBuilder()\n"
        "orders = builder.stream('orders', key=STRING, value=JSON)\n"
        "orders.map_values(lambda order: print('called') or {'sum': order['price'] * 2, 'kind': 'order'}).to('sums')\n"
    )
    shown = CliRunner().invoke(command, ["describe", str(path), "--lineage"])
    assert shown.exit_code == 0
    assert shown.stdout == (
        "sums\n"
        "  key         <- orders.key\n"
        "  value.sum   <- orders.value.price  TRANSFORMATION\n"
        '  value.kind  <- "order"\n'
    )
    found = json.loads(CliRunner().invoke(command, ["describe", str(path), "--lineage", "--json"]).stdout)
    (output,) = found["outputs"]
    assert output["columns"][1] == {
        "part": "value",
        "path": ["sum"],
        "origins": [{"topic": "orders", "part": "value", "path": ["price"], "use": "TRANSFORMATION"}],
        "opaque": False,
        "constant": None,
    }
