"""The mirrors of a target, as the settings of its topics name them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from broker_cy.admin import AdminClient
from broker_cy.admin.mirror_links import MirrorTopic, mirror_topics
from broker_cy.core.errors import ErrorCode


async def mirrors_in(client: AdminClient, names: Collection[str] | None = None) -> dict[str, MirrorTopic]:
    """Return the mirrors among these topics, None: among all whose settings may be seen; topics that do not exist are
    left out. Raises ClientError.
    """
    wanted = None if names is None else sorted(names)
    infos, failed = await client.caller.metadata.refresh(wanted, client.caller.deadline())
    for error in failed.values():
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise error
    partitions = {name: len(info.partitions) for name, info in infos.items()}
    found = await mirror_topics(client.configs, partitions, is_strict=names is not None)
    return {each.name: each for each in found}


def by_source(mirrors: Iterable[MirrorTopic]) -> dict[str, list[MirrorTopic]]:
    """Return the mirrors of each topic of the source: several topics may mirror one."""
    found: dict[str, list[MirrorTopic]] = {}
    for each in mirrors:
        found.setdefault(each.source, []).append(each)
    return found
