"""CREATE OR REPLACE ... AS SELECT: a query that goes on where the one before it stopped.

The new query takes over offsets and state, so that both must fit: it reads the same sources and keeps the same state.
WHERE, HAVING and the projection may differ (ksqlDB's "in-place upgrades").
"""

from __future__ import annotations

from broker_sql.analysis.query import Analysis
from broker_sql.errors import Location, StatementError
from broker_sql.types import quoted
from broker_streams.dsl.topology import Topology


def check_upgrade(
    name: str, old: Analysis, new: Analysis, plans: tuple[Topology, Topology], where: Location | None
) -> None:
    """`plans` are the topologies of both queries. Raises StatementError: the new one cannot take over."""
    what = f"the query of {quoted(name)} cannot be replaced"
    way_out = "TERMINATE it, DROP its result, and create it again"
    before = sorted(each.info.name for each in old.sources)
    after = sorted(each.info.name for each in new.sources)
    if before != after:
        raise StatementError(f"{what}: it reads {', '.join(before)}, not {', '.join(after)}. {way_out}", where)
    if new.joins or old.joins:
        raise StatementError(f"{what}: it joins sources. {way_out}", where)
    if old.window is not None or new.window is not None:
        raise StatementError(f"{what}: its keys are in windows. {way_out}", where)
    if old.aggregation is not None and old.sources[0].info.is_table:
        raise StatementError(f"{what}: it aggregates a table. {way_out}", where)
    if _state(plans[0]) != _state(plans[1]):
        raise StatementError(
            f"{what}: the new query keeps another state. Its groups, aggregate functions and the columns that it uses"
            f" must stay. {way_out}",
            where,
        )


def _state(topology: Topology) -> list[tuple[object, ...]]:
    """The stores and the topics of a query itself, with their formats."""
    plan = topology.plan
    stores = [(each.name, each.kind, _name(each.key_serde), _name(each.value_serde)) for each in plan.stores]
    return [*sorted(stores, key=str), *sorted((each.name,) for each in plan.repartition_topics)]


def _name(serde: object) -> str:
    return str(getattr(serde, "name", serde))
