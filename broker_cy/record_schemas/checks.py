"""The verdict about the schemas that the records of a batch name; a pure function of the batch and of `known`."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final, Protocol
from uuid import UUID

from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode
from broker_cy.record_schemas.known import KnownSchemas, SchemaName
from broker_cy.wire.rejection import Rejection, refused_records
from broker_cy.wire.schema_uses import SchemaUses, schemas_of

ERRORS_MAX: Final = 4_096
"""Records of one batch that an answer names, as for other reasons (RECORD_ERRORS_MAX in wire.batch)."""

_PACKAGE: Final = "io.confluent.kafka.serializers.subject."


class Strategy(Enum):
    """The subject that a record's schema must be in, by Confluent's class names."""

    TOPIC_NAME = f"{_PACKAGE}TopicNameStrategy"
    RECORD_NAME = f"{_PACKAGE}RecordNameStrategy"
    TOPIC_RECORD_NAME = f"{_PACKAGE}TopicRecordNameStrategy"

    def subject(self, topic: str, side: str, record_name: str | None) -> str | None:
        """Return the subject; None if it depends on a name that the schema does not have."""
        if self is Strategy.TOPIC_NAME:
            return f"{topic}-{side}"
        if record_name is None:
            return None
        return record_name if self is Strategy.RECORD_NAME else f"{topic}-{record_name}"


class Verdict(NamedTuple):
    """`refusal` is None if all schemas are known. A refusal that is not certain depends on what is not known yet."""

    refusal: Rejection | None
    is_certain: bool


ACCEPTED: Final = Verdict(None, True)


class Awaited(Protocol):
    """The follower: `known` changes while it reads."""

    @property
    def known(self) -> KnownSchemas: ...
    def up_to_date(self) -> Any:
        """Return a future of whether `known` has all that was in the topic when this was called."""


class RecordSchemas:
    """The check of one topic. `key` and `value` are the strategies; None for a side that is not checked."""

    def __init__(self, topic: str, key: Strategy | None, value: Strategy | None, follower: Awaited) -> None:
        self.topic = topic
        self._sides = {"key": key, "value": value}
        self.follower = follower

    def collect(self, records: Any, count: int) -> tuple[SchemaUses | None, SchemaUses | None]:
        """Return the schemas that the keys and values of records name; called in a worker, too. Raises WireError."""
        return schemas_of(records, count, keys=self._sides["key"] is not None, values=self._sides["value"] is not None)

    def judge(self, uses: tuple[SchemaUses | None, SchemaUses | None], partition: int) -> Verdict:
        """Return the verdict about a batch with these schemas."""
        errors: list[tuple[int, str]] = []
        total, is_certain = 0, True
        for (side, strategy), used in zip(self._sides.items(), uses, strict=True):
            if strategy is None or used is None:
                continue
            if used.is_full:
                reason = f"its {side}s name more than {len(used.found):,} different schemas"
                text = f"Record batch for {self.topic}-{partition} refused: {reason}"
                return Verdict(Rejection(ErrorCode.INVALID_RECORD, text, []), True)
            for schema, use in used.found.items():
                fault = self._fault(side, strategy, schema)
                if fault is None:
                    continue
                total += use.records
                is_certain = is_certain and schema is None
                errors += [(place, f"Record {place} for {self.topic}-{partition}: {fault}") for place in use.places]
        if not errors:
            return ACCEPTED
        return Verdict(refused_records(total, sorted(errors)[:ERRORS_MAX]), is_certain)

    def up_to_date(self) -> Any:
        """Return a future; a verdict that is not certain is right when it is True."""
        return self.follower.up_to_date()

    def not_up_to_date(self, partition: int) -> Rejection:
        """The answer if it is not known in time whether the registry has a schema: producers send the batch again.

        They know NOT_ENOUGH_REPLICAS as an error after which nothing was appended; it is used as well if the
        transaction coordinator does not answer.
        """
        reason = "it could not be found out in time whether the schema registry has the schemas of its records"
        text = f"Record batch for {self.topic}-{partition} refused: {reason}"
        return Rejection(ErrorCode.NOT_ENOUGH_REPLICAS, text, [])

    def _fault(self, side: str, strategy: Strategy, schema: SchemaName | None) -> str | None:
        """Return the reason why a schema is refused; None if its subject has it."""
        known = self.follower.known
        subject = strategy.subject(self.topic, side, None if schema is None else known.record_name(schema))
        if schema is not None and subject is not None and known.has(subject, schema):
            return None
        where = (
            f"subject {subject}" if subject is not None else f"no subject of {strategy.value.removeprefix(_PACKAGE)}"
        )
        if schema is None:
            return f"the {side} names no schema; one of {where} is required"
        name = f"id {schema}" if isinstance(schema, int) else f"GUID {UUID(bytes=schema)}"
        if subject is None:
            return f"the {side} has schema {name}, which {where} has"
        return f"the {side} has schema {name}, which {where} does not have"
