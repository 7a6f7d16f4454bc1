"""Values of a schema: encoded before the run, so that records cost as much as those of a file.

The pool has the values of the file, or random ones: as many as the scenario says, and POOL_BYTES at most.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Final

from broker_cy.client.clusters import ClusterEntry
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.payload.settings import Payload
from broker_cy.client.payload.values import POOL_BYTES, POOL_VALUES_MIN
from broker_registry.serdes.tools import encoders_of
from loadgen.scenario.entries import FILE_MAX, RECORD_MAX, REQUEST_MAX
from loadgen.scenario.model import Scenario, UserSpec

_NEEDED: Final = "name the registry: --registry, registry in the cluster file, or BROKER_CY_REGISTRY"


def with_encoded(scenario: Scenario, cluster: ClusterEntry) -> Scenario:
    """Return the scenario with the values of schemas encoded by the registry of the cluster. Raises ClientError, which
    names the users and the field that does not fit.
    """
    if not any(each.payload.kind == "schema" for each in scenario.users):
        return scenario
    return replace(scenario, users=asyncio.run(_encoded(scenario, cluster)))


async def _encoded(scenario: Scenario, cluster: ClusterEntry) -> tuple[UserSpec, ...]:
    found = []
    for spec in scenario.users:
        try:
            found.append(await _of_user(spec, scenario.seed, cluster) if spec.payload.kind == "schema" else spec)
        except ValueError as error:
            raise ClientError(Failure.INVALID, str(error), what=f"users {spec.name}") from None
    return tuple(found)


async def _of_user(spec: UserSpec, seed: int, cluster: ClusterEntry) -> UserSpec:
    """Raises ClientError and ValueError."""
    payload = spec.payload
    encoders = encoders_of(cluster)
    if encoders is None:
        raise ValueError(f"its values have a schema: {_NEEDED}")
    encoder = await (
        encoders.newest(payload.subject, payload.message or None)
        if payload.subject
        else encoders.by_id(payload.schema_id, payload.message or None)
    )
    values: list[bytes] = []
    if payload.path:
        for number, line in enumerate(payload.lines, 1):
            try:
                values.append(encoder.encode_text(line))
            except ValueError as error:
                raise ValueError(f"{payload.path}: value {number}: {error}") from None
    else:
        source = random.Random(f"schema {seed} {spec.name}")
        left = POOL_BYTES
        while len(values) < payload.count and (left > 0 or len(values) < POOL_VALUES_MIN):
            values.append(encoder.sample(source))
            left -= len(values[-1])
    _check(spec, values)
    return replace(spec, payload=_with(payload, values))


def _check(spec: UserSpec, values: list[bytes]) -> None:
    largest = max(map(len, values))
    if largest > RECORD_MAX:
        raise ValueError(f"a value has {largest} B (allowed: up to {RECORD_MAX} B)")
    if spec.records * largest > REQUEST_MAX:
        raise ValueError(f"{spec.records} records of {largest} B exceed {REQUEST_MAX} B, the largest request")
    if sum(map(len, values)) > 2 * FILE_MAX:
        raise ValueError(f"the encoded values have more than {2 * FILE_MAX >> 20} MiB, the most that is allowed")


def _with(payload: Payload, values: list[bytes]) -> Payload:
    return replace(payload, lines=tuple(values))
