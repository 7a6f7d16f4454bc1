"""Runs operations without a broker: checks on the spot, records straight into the state."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from broker_registry.checks import Check, ParsedCache
from broker_registry.operations.plan import Ids, Operation, Plan
from broker_registry.operations.register import Registered, RegisterSettings, register
from broker_registry.operations.wanted import Wanted
from broker_registry.schema_types.base import InvalidSchema, Reference
from broker_registry.store.state import State
from broker_registry.store.values import SchemaContent

T = TypeVar("T")
_CACHE = ParsedCache()


def drive(steps: Generator[Check, Any, T]) -> T:
    try:
        check = next(steps)
        while True:
            try:
                result = check.run(_CACHE)
            except InvalidSchema as error:
                check = steps.throw(error)
            else:
                check = steps.send(result)
    except StopIteration as end:
        found: T = end.value
        return found


def plan_of(state: State, operation: Operation[T], ids: Ids | None = None) -> Plan[T]:
    found = operation(state, ids or Ids(state))
    return found if isinstance(found, Plan) else drive(found)


def run(state: State, operation: Operation[T]) -> T:
    """Plan an operation, apply its records, and return its answer."""
    plan = plan_of(state, operation)
    for key, value in plan.records:
        state.apply(key, value, 1)
    return plan.reply


def record_of(*fields: str, name: str = "R") -> str:
    """Return an Avro record; a field is `name:type`, or `name:type=default`."""
    parts = []
    for field in fields:
        name_and_type, _, default = field.partition("=")
        own, kind = name_and_type.split(":")
        parts.append(f'{{"name":"{own}","type":"{kind}"' + (f',"default":{default}' if default else "") + "}")
    return f'{{"type":"record","name":"{name}","fields":[{",".join(parts)}]}}'


def wanted(
    subject: str, text: str, *references: Reference, version: int = 0, schema_id: int = -1, **more: Any
) -> Wanted:
    return Wanted(subject, SchemaContent("AVRO", text, references)._replace(**more), version, schema_id)


def add(state: State, request: Wanted, *, normalizes: bool = False, is_forced: bool = False) -> Registered:
    settings = RegisterSettings(normalizes, is_forced)
    return run(state, lambda state, ids: register(state, ids, request, settings))
