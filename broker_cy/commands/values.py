"""Types of command options: click's types for the values that both consoles parse."""

from __future__ import annotations

from collections.abc import Sequence

import click

from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.parsed import Parsed
from broker_cy.client.quantities import parse_duration
from broker_cy.console.record_filter import parse_part
from broker_cy.console.values import (
    parse_bytes,
    parse_delimiter,
    parse_header,
    parse_int,
    parse_partitions,
    parse_position,
    parse_setting,
    parse_time,
    parse_topic_partitions,
)

OFFSET = Parsed("offset", lambda text: parse_int(text, 0))
COUNT = Parsed("count", lambda text: parse_int(text, 1, 2**31 - 1))
BYTES = Parsed("bytes", parse_bytes)
DURATION = Parsed("duration", parse_duration)
TIME = Parsed("time", parse_time)
POSITION = Parsed("position", parse_position)
PARTITIONS = Parsed("partitions", parse_partitions)
TOPIC_PARTITIONS = Parsed("topic[:partitions]", parse_topic_partitions)
SETTING = Parsed("name=value", parse_setting)
HEADER = Parsed("name=value", parse_header)
DELIMITER = Parsed("delimiter", parse_delimiter)
FILTER = Parsed("filter", parse_part)


def chosen(every: Sequence[TopicPartition], wanted: Sequence[int] | None) -> list[TopicPartition]:
    """Return the selected partitions of a topic (None: all). Raises click.BadParameter if one does not exist."""
    if wanted is None:
        return list(every)
    by_number = {key.partition: key for key in every}
    missing = [index for index in wanted if index not in by_number]
    if missing:
        topic = every[0].topic if every else "the topic"
        raise click.BadParameter(f"{topic} has no partition {missing[0]}; it has 0 to {len(every) - 1}")
    return [by_number[index] for index in wanted]
