"""The tasks of a link flow: they create its mirrors, and carry the offsets of groups over. The brokers of the target
copy the records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker_cy.admin import AdminClient
from broker_cy.admin.configs import ConfigResource, ResourceType
from broker_cy.admin.mirror_links import MirrorTopic
from broker_cy.admin.topics import NewTopic
from broker_cy.core.errors import ErrorCode
from broker_cy.core.mirror_settings import LINK, SOURCE_TOPIC
from broker_mirror.flows import Flow
from broker_mirror.link.group_sync import GroupSync
from broker_mirror.link.mirrors import by_source, mirrors_in
from broker_mirror.tasks.host import FlowTasks
from broker_mirror.tasks.topics import TopicPlan, configs_of_new

PROBLEM: Final = "mirrors"
"""The task of these problems."""


class LinkTasks:
    """Each method is a turn; it raises ClientError if the turn failed as a whole."""

    def __init__(self, flow: Flow, source: AdminClient, target: AdminClient, tasks: FlowTasks) -> None:
        self._flow, self._source, self._target, self._tasks = flow, source, target, tasks
        self.groups = GroupSync(flow.groups, source, target)
        self._mirrors: dict[str, list[MirrorTopic]] = {}

    async def refresh_topics(self) -> None:
        """Create mirrors for new topics of the source, and partitions for new ones."""
        plan = await self._tasks.refresh_topics(changes=False)
        remotes = [self._flow.remote_topic(topic) for topic in plan.topics]
        mirrors = await mirrors_in(self._target, remotes)
        problems = strangers(self._flow, plan, mirrors)
        growing = {name: count for name, count in plan.grow.items() if name in mirrors and mirrors[name].link}
        failed = await self._create(plan)
        if growing:
            outcome = await self._target.topics.add_partitions(growing)
            failed |= {name: str(error) for name, error in outcome.failed.items()}
        self._tasks.problems[PROBLEM] = problems | {f"{name} in the target": text for name, text in failed.items()}
        await self.refresh_mirrors()

    async def _create(self, plan: TopicPlan) -> dict[str, str]:
        if not plan.create:
            return {}
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic, _ in plan.create.values()]
        settings = await self._source.configs.describe(resources)
        failed = {resource.name: str(error) for resource, error in settings.failed.items()}
        new = []
        for remote, (topic, partitions) in plan.create.items():
            entries = settings.found.get(ConfigResource(ResourceType.TOPIC, topic))
            if entries is not None:
                configs = configs_of_new(self._flow, entries) | {LINK: self._flow.link}
                if remote != topic:
                    configs[SOURCE_TOPIC] = topic
                new.append(NewTopic(remote, partitions, self._flow.values["replication.factor"], configs))
        outcome = await self._target.topics.create(new)
        return failed | {
            name: str(error)
            for name, error in outcome.failed.items()
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS
        }

    async def refresh_mirrors(self) -> None:
        """Look for the mirrors of the link: operators may have created or promoted some."""
        found = await mirrors_in(self._target)
        self._mirrors = by_source(
            each for each in found.values() if each.link == self._flow.link and self._flow.copies_topic(each.source)
        )

    async def sync_groups(self) -> None:
        if not self._mirrors:
            await self.refresh_mirrors()
        await self.groups.turn(self._mirrors)


def strangers(flow: Flow, plan: TopicPlan, mirrors: Mapping[str, MirrorTopic]) -> dict[str, str]:
    """Return problems of topics of the target that exist already and are no mirrors of the flow: nothing is changed."""
    found = {}
    for topic in plan.topics:
        remote = flow.remote_topic(topic)
        if remote in plan.create:
            continue
        mirror = mirrors.get(remote)
        if mirror is None:
            found[topic] = f"topic {remote} of the target is no mirror: it is left as it is"
        elif mirror.link is None:
            found[topic] = f"topic {remote} of the target was promoted"
        elif mirror.link != flow.link or mirror.source != topic:
            found[topic] = f"topic {remote} of the target mirrors {mirror.source} over link {mirror.link}"
    return found
