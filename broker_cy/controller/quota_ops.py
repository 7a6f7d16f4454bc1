"""Client quotas: AlterClientQuotas (49) and DescribeClientQuotas (48), with the rules and messages of Kafka's
ClientQuotaControlManager and ClientQuotasImage (KIP-546, KIP-612).

An entity is a user, a client id, both of them, or an ip; each of them by name or as the default for all names that have
no quota of their own. The records are in the image's `kept`, one for each entity and key. A walk over them takes about
10 ms with 100,000 quotas.

One difference from Kafka: an ip is an address, not the name of a host. Kafka's controller looks names up, and waits for
the answer.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final

from broker_cy.controller.operation import MetadataStep, Operation, OperationContext
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata import quotas
from broker_cy.metadata.authors import NOBODY, Author, tag_of
from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.quotas import CLIENT_ID, IP, QUOTA, USER, Entity
from broker_cy.metadata.records import VersionedRecord
from broker_cy.wire import messages

# The types of the values of each key, as in Kafka's QuotaConfig: the largest value that is allowed, or None for a
# fraction of any size.
_INT_MAX: Final = float(2**31 - 1)
_LONG_MAX: Final = float(2**63 - 1)
_USER_KEYS: Final[Mapping[str, float | None]] = {
    quotas.PRODUCER_BYTE_RATE: _LONG_MAX,
    quotas.CONSUMER_BYTE_RATE: _LONG_MAX,
    quotas.REQUEST_PERCENTAGE: None,
    quotas.CONTROLLER_MUTATION_RATE: None,
}
_IP_KEYS: Final[Mapping[str, float | None]] = {quotas.CONNECTION_CREATION_RATE: _INT_MAX}
# A remainder below this is none.
_FRACTION_MIN: Final = 1e-6

_Altered = messages.AlterClientQuotasResponse.EntryData
_AlteredEntity = messages.AlterClientQuotasResponse.EntityData
_Described = messages.DescribeClientQuotasResponse.EntryData
_DescribedEntity = messages.DescribeClientQuotasResponse.EntityData
_DescribedValue = messages.DescribeClientQuotasResponse.ValueData


class Match(IntEnum):
    """How a component of a filter selects entities."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


@dataclass(slots=True)
class AlterClientQuotas(Operation[Any]):
    """Set and remove quotas for `request`, an AlterClientQuotasRequest. The reply is its response, with one result for
    each entity. As in Kafka, an entity that a request changes twice, or a key twice for one entity, is an error, but
    the first change still applies. `by` is the requester.
    """

    request: Any
    by: Author = NOBODY

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> Any:
        records: list[VersionedRecord] = []
        errors: dict[Entity, KafkaError | None] = {}
        for wanted in self.request.entries:
            names = _names(wanted.entity)
            entity = quotas.entity_of(names)
            values: dict[str, float | None] = {}
            for each in wanted.ops:
                values.setdefault(each.key, None if each.remove else each.value)
            try:
                if entity in errors or len(values) < len(wanted.ops):
                    raise _invalid(f"Ignoring duplicate entity {_text(names)}")
                records += _records(state, names, entity, values)
                errors[entity] = None
            except KafkaError as error:
                errors[entity] = error
        tags = tag_of(self.by)
        for record in records:
            record.message._unknown_tags = tags
        results = [
            _Altered(
                error_code=int(error.code) if error is not None else 0,
                error_message=error.message if error is not None else None,
                entity=[_AlteredEntity(entity_type=kind, entity_name=name) for kind, name in entity],
            )
            for entity, error in errors.items()
        ]
        response = messages.AlterClientQuotasResponse(entries=results)
        if not self.request.validate_only:
            step.records += records
        return response


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _names(parts: Iterable[Any]) -> dict[str, str | None]:
    """The names by type, in Kafka's order of checks: that of its hash table."""
    names = {part.entity_type: part.entity_name for part in parts}
    return {kind: names[kind] for kind in sorted(names, key=(CLIENT_ID, USER, IP, *names).index)}


def _text(names: Mapping[str, str | None]) -> str:
    """The entity as Kafka writes it."""
    parts = (f"{kind}={'null' if name is None else name}" for kind, name in names.items())
    return f"ClientQuotaEntity(entries={{{', '.join(parts)}}})"


def _records(
    state: MetadataImage, names: Mapping[str, str | None], entity: Entity, values: Mapping[str, float | None]
) -> list[VersionedRecord]:
    """The records for the changes of one entity: for all changes, or none. Raises KafkaError."""
    keys = _keys(names)
    records = []
    for key, value in values.items():
        current = state.kept.get((QUOTA, entity, key))
        if value is None:
            if current is None:
                continue
        else:
            _check(keys, key, value)
            if current is not None and _same(current.value, value):
                continue
        parts = [messages.ClientQuotaRecord.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        fields: dict[str, Any] = {"remove": True} if value is None else {"value": value}
        records.append(VersionedRecord(messages.ClientQuotaRecord(entity=parts, key=key, **fields)))
    return records


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def _keys(names: Mapping[str, str | None]) -> Mapping[str, float | None]:
    """The keys of an entity, with the limits of their values. Raises KafkaError if it is none."""
    if not names:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in names.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if IP not in names:
        return _USER_KEYS
    if len(names) > 1:
        raise _invalid("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    address = names[IP]
    if address is not None:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise _invalid(f"{address} is not a valid IP or resolvable host.") from None
    return _IP_KEYS


def _check(keys: Mapping[str, float | None], key: str, value: float) -> None:
    """Raises KafkaError unless the key may have this value. As in Kafka, NaN passes: it limits nothing."""
    if key not in keys:
        raise _invalid(f"Invalid configuration key {key}")
    if value <= 0.0:
        raise _invalid(f"Quota {key} must be greater than 0")
    value_max = keys[key]
    if value_max is None:
        return
    if value > value_max:
        raise _invalid(f"Proposed value for {key} is too large for {'an INT' if value_max == _INT_MAX else 'a LONG'}.")
    if math.fmod(value, 1.0) > _FRACTION_MIN:
        raise _invalid(f"{key} cannot be a fractional value.")


def describe(records: Iterable[Any], request: Any) -> Any:
    """The DescribeClientQuotasResponse for a request: the entities that its components select, with their quotas.
    Raises KafkaError.
    """
    exact: dict[str, str | None] = {}
    specified: set[str] = set()
    for each in request.components:
        _check_component(each, exact, specified)
        if each.match_type == Match.SPECIFIED:
            specified.add(each.entity_type)
        else:
            exact[each.entity_type] = each.match
    kinds = {*exact, *specified}
    if IP in kinds and len(kinds) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )
    found: dict[Entity, Any] = {}
    for record in records:
        names = {part.entity_type: part.entity_name for part in record.entity}
        if not kinds <= names.keys() or (request.strict and len(names) != len(kinds)):
            continue
        if any(names[kind] != name for kind, name in exact.items()):
            continue
        entity = quotas.entity_of(names)
        if entity not in found:
            parts = [_DescribedEntity(entity_type=kind, entity_name=name) for kind, name in entity]
            found[entity] = _Described(entity=parts, values=[])
        found[entity].values.append(_DescribedValue(key=record.key, value=record.value))
    return messages.DescribeClientQuotasResponse(error_message="", entries=list(found.values()))


def _check_component(component: Any, exact: Mapping[str, str | None], specified: set[str]) -> None:
    kind = component.entity_type
    if not kind:
        raise _invalid("Invalid empty entity type.")
    if kind in exact or kind in specified:
        raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in (USER, CLIENT_ID, IP):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
    if component.match_type not in tuple(Match):
        raise _invalid(f"Unknown match type {component.match_type}")
    match = Match(component.match_type)
    if match is Match.EXACT and component.match is None:
        raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    if match is not Match.EXACT and component.match is not None:
        raise _invalid(f"Request specified MATCH_TYPE_{match.name}, but also specified a match string.")
