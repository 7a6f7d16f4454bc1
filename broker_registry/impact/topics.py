"""The topics of a subject: the strategies of serializers, backwards."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from broker_registry.serdes.strategies import Strategy
from broker_registry.subject_names import SubjectName

_KEY: Final = "-key"
_VALUE: Final = "-value"


class Place(NamedTuple):
    """Where the records of a subject are. `is_alone`: other subjects have no records there, so that readers of the
    subject read all of them.
    """

    topics: tuple[str, ...]
    is_key: bool
    strategy: Strategy

    @property
    def is_alone(self) -> bool:
        return self.strategy is Strategy.TOPIC_NAME


def place_of(subject: str, record_name: str | None, existing: Collection[str]) -> Place:
    """Return the place of a subject whose new schema has the record or message `record_name`, among existing topics.

    Raises ValueError if no topic follows from the name: with RecordNameStrategy, records of a subject may be in any.
    """
    name = SubjectName.parse(subject).subject
    for end, is_key in ((_VALUE, False), (_KEY, True)):
        topic = name.removesuffix(end)
        if topic != name and topic in existing:
            return Place((topic,), is_key, Strategy.TOPIC_NAME)
    if record_name is not None:
        topic = name.removesuffix(f"-{record_name}")
        if topic != name and topic in existing:
            return Place((topic,), False, Strategy.TOPIC_RECORD_NAME)
        if name == record_name:
            raise ValueError(f"{subject} is the name of a record, which may be in any topic: name the topics")
    raise ValueError(f"no topic of the cluster follows from the subject {subject}: name the topics")


def place_in(subject: str, topics: Sequence[str], *, is_key: bool | None = None) -> Place:
    """Return the place of a subject in topics that a user named. Without `is_key`, the subject says which part of
    records it is.
    """
    name = SubjectName.parse(subject).subject
    if is_key is None:
        is_key = name.endswith(_KEY)
    is_alone = name in {f"{topic}{_KEY if is_key else _VALUE}" for topic in topics}
    strategy = Strategy.TOPIC_NAME if is_alone and len(topics) == 1 else Strategy.RECORD_NAME
    return Place(tuple(topics), is_key, strategy)
