"""ASSERT: statements that wait until a topic or a schema exists, or does not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from broker_sql.server import entities
from broker_sql.server.entities import Entity
from broker_sql.server.errors import ApiError, Code
from broker_sql.server.service import Service
from broker_sql.statements import AssertSchema, AssertTopic, Duration
from broker_streams.serdes import SerdeError, SerdeUnavailable

_AGAIN_S: Final = 0.05
_TOPIC_CONFIGS: Final = ("PARTITIONS", "REPLICAS")


async def assert_topic(service: Service, statement: AssertTopic) -> Entity:
    """Raises ApiError: the topic does not come within the time, or is another one. ClientError."""
    name = str(statement.topic)
    for each in statement.properties:
        if each.name.upper() not in _TOPIC_CONFIGS:
            raise ApiError(
                Code.ASSERTION_FAILED,
                f"Cannot assert topic property {each.name}; {', '.join(_TOPIC_CONFIGS)} can be",
                statement.text,
            )

    async def problem() -> str:
        found = (await service.topics()).get(name)
        if not statement.exists:
            return "" if found is None else f"Topic {name} exists"
        if found is None:
            return f"Topic {name} does not exist"
        actual = {"PARTITIONS": found.partitions, "REPLICAS": found.replicas}
        wrong = [
            f"{each.name} is {actual[each.name.upper()]}, not {each.value}"
            for each in statement.properties
            if actual[each.name.upper()] != each.value
        ]
        return f"Topic {name}: {'; '.join(wrong)}" if wrong else ""

    default = service.config.values["ksql.assert.topic.default.timeout.ms"]
    await _until(problem, statement.timeout, default, statement.text)
    return entities.assert_topic(statement.text, name, exists=statement.exists)


async def assert_schema(service: Service, statement: AssertSchema) -> Entity:
    """Raises ApiError: the schema does not come within the time, or there is no registry."""
    registry = service.registry
    if registry is None:
        raise ApiError(Code.NO_REGISTRY, "ASSERT SCHEMA needs a schema registry: set ksql.schema.registry.url")
    subject = None if statement.subject is None else str(statement.subject)

    def known() -> bool:
        try:
            found = registry.latest(subject) if subject is not None else registry.schema(statement.id)
            if subject is not None and statement.id is not None:
                return bool(registry.registered(subject, registry.schema(statement.id).text).name == statement.id)
        except SerdeError:
            return False
        return found is not None

    async def problem() -> str:
        what = " ".join(
            each
            for each in (
                f"subject {subject}" if subject is not None else "",
                f"id {statement.id}" if statement.id is not None else "",
            )
            if each
        )
        try:
            exists = await asyncio.to_thread(known)
        except SerdeUnavailable as error:
            return f"the registry does not answer: {error}"
        if exists == statement.exists:
            return ""
        return f"Schema with {what} {'exists' if exists else 'does not exist'}"

    default = service.config.values["ksql.assert.schema.default.timeout.ms"]
    await _until(problem, statement.timeout, default, statement.text)
    return entities.assert_schema(statement.text, subject, statement.id, exists=statement.exists)


async def _until(problem: Callable[[], Awaitable[str]], given: Duration | None, default_ms: int, text: str) -> None:
    """Wait until there is no problem. Raises ApiError with the last one."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + (default_ms if given is None else given.ms) / 1000
    while found := await problem():
        if loop.time() >= until_s:
            raise ApiError(Code.ASSERTION_FAILED, found, text)
        await asyncio.sleep(_AGAIN_S)
