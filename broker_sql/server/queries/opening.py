"""The query of a client: a push query, a pull query, or PRINT, from its text."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from broker_sql.analysis.query import Analysis
from broker_sql.errors import StatementError
from broker_sql.planner.push import schema_of
from broker_sql.server.errors import ApiError, Code
from broker_sql.server.queries.pull import PullQuery, open_pull, pull_plan
from broker_sql.server.queries.push import Bounds, PushPlan, PushQuery
from broker_sql.server.service import Service
from broker_sql.server.session import Session
from broker_sql.statements import CreateAs, Emit, InsertInto, Print, Query
from broker_streams.plan.topology import Topology

# Settings of requests that limit a push query to records that exist.
LAST: Final = "brokercy.sql.last.records"
UNTIL: Final = "brokercy.sql.until"
NOW: Final = "now"
LAST_MAX: Final = 1_000_000
_ID_MAX: Final = 1 << 62
_SCAN: Final = "ksql.query.pull.table.scan.enabled"
_RANGE: Final = "ksql.query.pull.range.scan.enabled"
_RESET: Final = "auto.offset.reset"
_SCALABLE: Final = "ksql.query.push.v2.enabled"
_LIMIT: Final = "ksql.query.pull.limit.clause.enabled"


def the_query(service: Service, text: str, session: Session) -> Query | Print:
    """Return the only query of a text, behind statements about the session. Raises SqlError, ApiError."""
    substitutes = service.config.values["ksql.variable.substitution.enable"]
    statements = list(session.statements(text, substitutes=substitutes))
    if len(statements) != 1:
        raise ApiError(Code.BAD_STATEMENT, f"Expected exactly one statement; found {len(statements)} instead", text)
    statement = statements[0]
    if isinstance(statement, CreateAs | InsertInto) and bounds_of(session).ends:
        # A preview of the rows that the query would write.
        query = statement.query
        return replace(query, emit=query.emit or Emit.CHANGES, text=statement.text)
    if not isinstance(statement, Query | Print):
        raise ApiError(Code.BAD_STATEMENT, "This endpoint takes SELECT and PRINT; use /ksql for other statements", text)
    return statement


def bounds_of(session: Session) -> Bounds:
    """Return the records that a request limits its query to. Raises StatementError: a setting is wrong."""
    last, until = session.properties.get(LAST), session.properties.get(UNTIL)
    if until is not None and str(until).lower() != NOW:
        raise StatementError(f"{UNTIL} is {until!r}; {NOW} is allowed")
    if last is None:
        return Bounds(ends=until is not None)
    if not str(last).isdecimal() or not 1 <= int(last) <= LAST_MAX:
        raise StatementError(f"{LAST} is {last!r}; a number from 1 to {LAST_MAX:,} is expected")
    return Bounds(ends=True, last=int(last))


async def open_query(service: Service, query: Query, session: Session) -> PushQuery | PullQuery:
    """Begin a query of a client. Raises SqlError, ApiError, ClientError, StreamsError."""
    if query.emit is None:
        return await _open_pull(service, query, session)
    limit = service.config.values["ksql.max.push.queries"]
    if len(service.push_queries) >= limit:
        raise ApiError(
            Code.MAX_PUSH_QUERIES,
            f"{limit} push queries run on this server, as many as ksql.max.push.queries allows",
            query.text,
        )
    settings = service.engine.settings(session.properties)
    number = secrets.randbelow(_ID_MAX)
    # Planned once without a client: errors come before anything is opened.
    planned = service.engine.planned(query, settings, number)
    assert planned.query_id is not None
    assert planned.analysis is not None

    def make(on_row: Callable[[tuple[Any, ...], bool], object]) -> Topology:
        topology = service.engine.planned(query, settings, number, on_row).topology
        assert topology is not None
        return topology.plan

    columns = schema_of(planned.analysis).columns
    query_id = f"SCALABLE_PUSH_QUERY_{number}" if _is_scalable(service, planned.analysis, session) else planned.query_id
    is_table, bounds = planned.analysis.is_table, bounds_of(session)
    plan = PushPlan(query_id, columns, make, {}, query.limit, query.text, is_table=is_table, bounds=bounds)
    streams = {name: value for name, value in session.properties.items() if name not in (LAST, UNTIL)}
    return await service.open_push_query(plan, streams)


def _is_scalable(service: Service, analysis: Analysis, session: Session) -> bool:
    """Whether ksqlDB answers a push query from the one persistent query that writes its source."""
    if not _is_on(session, _SCALABLE, default=service.config.values[_SCALABLE]):
        return False
    defaults = service.config.streams
    reset = session.properties.get(_RESET, session.properties.get(f"ksql.streams.{_RESET}", defaults.get(_RESET)))
    query = analysis.query
    clauses = (query.group_by, query.window, query.having, query.partition_by)
    if str(reset or "latest").lower() != "latest" or any(clauses) or len(analysis.sources) != 1:
        return False
    source = analysis.sources[0].info.name
    sinks = [each.planned.sink for each in service.engine.queries.values()]
    return [each.name for each in sinks if each is not None].count(source) == 1


def _is_on(session: Session, name: str, *, default: bool = False) -> bool:
    """A setting of the request, or the one of the server."""
    found = session.properties.get(name)
    return default if found is None else str(found).lower() == "true"


async def open_by_key(service: Service, text: str, session: Session) -> PullQuery | None:
    """Begin a pull query that differs from an earlier one in its key only; None: the text is another one. Raises
    SqlError, ApiError, ClientError.
    """
    plan = None if "${" in text else service.by_key.find(text, session.properties)
    if plan is None:
        return None
    _admit_pull(service, text)
    return await open_pull(_pull_id(), plan, service.views, service.client)


def _pull_id() -> str:
    return f"query_{secrets.token_hex(8)}"


def _admit_pull(service: Service, text: str) -> None:
    """Raises StatementError and ApiError: the server answers no pull query, or no further one now."""
    config = service.config
    if not config.values["ksql.pull.queries.enable"]:
        raise StatementError("ksql.pull.queries.enable is false: add EMIT CHANGES for a push query")
    limit = config.values["ksql.query.pull.max.concurrent.requests"]
    if service.pulls >= limit:
        raise ApiError(
            Code.TOO_MANY_REQUESTS,
            f"{limit} pull queries run, which is the limit (ksql.query.pull.max.concurrent.requests)",
            text,
        )


async def _open_pull(service: Service, query: Query, session: Session) -> PullQuery:
    _admit_pull(service, query.text)
    config = service.config
    settings = service.engine.settings(session.properties)
    may_scan = _is_on(session, _SCAN, default=config.values[_SCAN])
    may_range = _is_on(session, _RANGE, default=config.values[_RANGE])
    if query.limit is not None and not _is_on(session, _LIMIT, default=True):
        raise StatementError(f"{_LIMIT} is false: a pull query cannot have LIMIT", query.location)
    plan = pull_plan(query, service.engine.catalog, settings, may_scan=may_scan, may_range=may_range)
    service.by_key.learn(query.text, session.properties, query, plan, service.registry)
    return await open_pull(_pull_id(), plan, service.views, service.client)
