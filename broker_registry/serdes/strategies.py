"""The subject under which a serializer registers a schema: Confluent's strategies, their names without `Strategy`."""

from __future__ import annotations

from enum import Enum


class Strategy(Enum):
    """TopicName is the default of Confluent's clients."""

    TOPIC_NAME = "TopicName"
    RECORD_NAME = "RecordName"
    TOPIC_RECORD_NAME = "TopicRecordName"

    def subject(self, topic: str, record_name: str | None, *, is_key: bool = False) -> str:
        """Return the subject of a schema whose record or message is `record_name`. Raises ValueError if the strategy
        needs that name and the schema has none, such as an Avro int.
        """
        if self is Strategy.TOPIC_NAME:
            return f"{topic}-{'key' if is_key else 'value'}"
        if record_name is None:
            raise ValueError(f"{self.value}Strategy needs the schema of a record, and the schema has no name")
        return record_name if self is Strategy.RECORD_NAME else f"{topic}-{record_name}"

    @classmethod
    def of(cls, text: str) -> Strategy:
        """Return the strategy of a name, also of Confluent's class. Raises ValueError."""
        return cls(text.rpartition(".")[2].removesuffix("Strategy"))
