"""/ksql: a sequence of statements, each with an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.errors import ErrorCode
from broker_sql.errors import SqlError, StatementError
from broker_sql.server import changes, shows
from broker_sql.server.api.requests import Answer, Request, object_of, text_of
from broker_sql.server.api.router import Router
from broker_sql.server.assertions import assert_schema, assert_topic
from broker_sql.server.entities import Entity
from broker_sql.server.errors import ApiError, Code, bad_request, bad_statement
from broker_sql.server.service import Service
from broker_sql.server.session import Session, session_of
from broker_sql.statements import (
    AlterSource,
    AlterSystem,
    AssertSchema,
    AssertStream,
    AssertTable,
    AssertTombstone,
    AssertTopic,
    AssertValues,
    CreateAs,
    CreateConnector,
    CreateFunction,
    CreateSource,
    CreateType,
    Define,
    DescribeConnector,
    DropConnector,
    DropFunction,
    DropSource,
    DropType,
    InsertInto,
    InsertValues,
    ListConnectorPlugins,
    ListConnectors,
    Pause,
    Print,
    Query,
    Resume,
    RunScript,
    SetProperty,
    Statement,
    Terminate,
    Undefine,
    UnsetProperty,
)

_COMMANDS = (
    CreateSource,
    CreateAs,
    InsertInto,
    CreateType,
    DropType,
    CreateFunction,
    DropFunction,
    DropSource,
    AlterSource,
    AlterSystem,
    Terminate,
    Pause,
    Resume,
)
_SESSION = (Define, Undefine, SetProperty, UnsetProperty)
_CONNECTORS = (CreateConnector, DropConnector, DescribeConnector, ListConnectors, ListConnectorPlugins)
_TESTS = (AssertStream, AssertTable, AssertValues, AssertTombstone)
_ACCESS = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)


def add_routes(router: Router) -> None:
    router.add("POST", "/ksql", run)


async def run(service: Service, request: Request) -> Answer:
    found = await request.json()
    text = text_of(found, "ksql")
    session = checked_session(service, found, "streamsProperties")
    await _wait(service, found.get("commandSequenceNumber"))
    answers: list[Entity] = []
    statement: Statement | None = None
    try:
        substitutes = service.config.values["ksql.variable.substitution.enable"]
        for statement in session.statements(text, substitutes=substitutes):
            answer = await execute(service, statement, session)
            if answer is not None:
                answers.append(answer)
            statement = None
    except (SqlError, ClientError, ApiError) as error:
        raise failure(error, text if statement is None else statement.text, answers) from None
    return Answer(answers)


async def execute(service: Service, statement: Statement, session: Session) -> Entity | None:
    """Carry out a statement; returns its answer, None for those that have none. Raises SqlError, ApiError and
    ClientError.
    """
    if isinstance(statement, Query | Print):
        raise ApiError(
            Code.QUERY_ENDPOINT,
            "SELECT and PRINT queries must use the /query endpoint",
            statement.text,
        )
    if isinstance(statement, _COMMANDS):
        return await changes.change(service, statement, session)
    if isinstance(statement, _SESSION):
        problem = service.config.problem_of(session.properties)
        if problem:
            raise StatementError(problem, statement.location)
        return None
    match statement:
        case InsertValues():
            await changes.insert_values(service, statement, session)
            return None
        case AssertTopic():
            return await assert_topic(service, statement)
        case AssertSchema():
            return await assert_schema(service, statement)
    if isinstance(statement, _CONNECTORS):
        raise StatementError("connectors need a Connect cluster, and this server has none", statement.location)
    if isinstance(statement, _TESTS):
        raise StatementError("ASSERT of rows, streams and tables is for test scripts", statement.location)
    if isinstance(statement, RunScript):
        raise StatementError("RUN SCRIPT reads a file of the client: use broker-sql -f", statement.location)
    found = await shows.show(service, statement, session)
    if found is None:
        raise StatementError(f"{type(statement).__name__} is no statement for a server", statement.location)
    return found


def checked_session(service: Service, found: Mapping[str, Any], properties: str) -> Session:
    """Raises ApiError."""
    try:
        return session_of(object_of(found, properties), object_of(found, "sessionVariables"), service.config)
    except StatementError as error:
        raise bad_request(error.message) from None


async def _wait(service: Service, sequence: Any) -> None:
    """Wait for commandSequenceNumber. Raises ApiError."""
    if sequence is None:
        return
    if not isinstance(sequence, int) or isinstance(sequence, bool):
        raise bad_request(f"commandSequenceNumber is {sequence!r}; a whole number is expected")
    if sequence < 0:
        return
    try:
        await service.wait_for(sequence)
    except TimeoutError:
        raise ApiError(
            Code.CATCH_UP_TIMEOUT,
            f"command {sequence} did not end in time; statements after it wait",
        ) from None


def failure(error: Exception, text: str, answers: list[Entity] | None = None) -> ApiError:
    """Return the answer to a statement that failed, behind the answers to those before it."""
    found: list[Mapping[str, Any]] = list(answers or ())
    if isinstance(error, ApiError):
        if error.statement is not None:
            error.entities = found
        return error
    if isinstance(error, ClientError):
        if error.code in _ACCESS:
            return ApiError(Code.FORBIDDEN_KAFKA, str(error), text, found)
        code = Code.NOT_READY if error.failure in (Failure.UNREACHABLE, Failure.TIMED_OUT) else Code.SERVER_ERROR
        return ApiError(code, str(error), text, found)
    return bad_statement(str(error), text, found)
