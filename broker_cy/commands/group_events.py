"""The newest events of streams groups, for `groups describe`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker_cy.admin import AdminClient
from broker_cy.admin.group_values import STREAMS, GroupDescription
from broker_cy.admin.records import Start
from broker_cy.client.errors import ClientError
from broker_cy.metrics.events import Commits, GroupEpoch, Stamped, StreamsStatus, prefix_of

# Events that are looked at: a group that is not ready begins few epochs.
SEARCHED_MAX: Final = 200


async def newest_events(client: AdminClient, groups: Iterable[GroupDescription]) -> list[Stamped]:
    """The newest events about the status and the epochs of those groups that are streams groups with members, in the
    order of their times. Empty if the cluster has no events, as Apache Kafka, and for users who may not read them.
    """
    names = {group.group_id for group in groups if group.group_type == STREAMS and group.members}
    if not names:
        return []
    try:
        span = await client.events.span(Start.latest())
        found = await client.events.newest(
            SEARCHED_MAX,
            lambda stamped: isinstance(stamped.event, GroupEpoch | StreamsStatus) and stamped.event.group in names,
            span.end,
            span.earliest,
            skip=prefix_of(Commits),
        )
    except ClientError:
        return []
    return [entry.item for entry in found.entries if entry.item is not None]
