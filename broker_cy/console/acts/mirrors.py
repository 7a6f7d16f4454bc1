"""Acts on mirror topics of links: pause, resume, promote. A promotion ends the mirror, and cannot be undone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from broker_cy.admin import AdminClient
from broker_cy.admin.configs import AlterOp, ConfigChange, ConfigResource, ResourceType
from broker_cy.admin.mirror_links import MirrorTopic, mirror_topics
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.plan import Change, Command, Plan, Report
from broker_cy.console.mirrors import FlowPartition
from broker_cy.console.session import Session
from broker_cy.core.classes import dataclass
from broker_cy.core.mirror_settings import LINK, PAUSED
from broker_cy.reporting.numbers import count, plural

_DONE: Final = {
    True: "paused already",
    False: "not paused: pause a mirror first, and resume it, to let one that has failed go on",
}
COMMANDS_MAX: Final = 3
"""Topics whose command lines a plan shows."""


@dataclass(frozen=True, slots=True)
class AlterMirrors:
    """The same change of a setting of several topics; `said` begins the sentence that reports it."""

    names: tuple[str, ...]
    change: ConfigChange
    said: str

    async def run(self, client: AdminClient) -> Report:
        outcome = await client.configs.alter({_resource(name): [self.change] for name in self.names})
        return Report.of(f"{self.said} {plural(len(outcome.found), 'mirror topic')}", outcome)


def _resource(name: str) -> ConfigResource:
    return ConfigResource(ResourceType.TOPIC, name)


async def _mirrors(client: AdminClient, names: Sequence[str]) -> list[MirrorTopic]:
    """Return the mirror topics of these names. Raises ClientError if one is none."""
    if not names:
        raise ClientError(Failure.INVALID, "no mirror topic is selected")
    topics = await mirror_topics(client.configs, dict.fromkeys(names, 0))
    found = {each.name: each for each in topics if each.link is not None}
    for name in names:
        if name not in found:
            raise ClientError(Failure.INVALID, "the topic is no mirror of a link", what=f"topic {name}")
    return [found[name] for name in names]


async def _checked(client: AdminClient, names: Iterable[str], change: ConfigChange) -> None:
    (await client.configs.alter({_resource(name): [change] for name in names}, validate_only=True)).whole()


async def plan_pause(client: AdminClient, command: Command, names: Sequence[str], *, paused: bool) -> Plan:
    """Plan pausing or resuming mirror topics; resuming also lets failed ones go on. Raises ClientError."""
    topics = await _mirrors(client, names)
    value = "true" if paused else "false"
    change = ConfigChange(PAUSED, AlterOp.SET, value)
    await _checked(client, names, change)
    verb = "Pause" if paused else "Resume"
    is_done = all(topic.is_paused == paused for topic in topics)
    return Plan(
        f"{verb} {_titled(names)}",
        f"{plural(len(names), 'mirror topic')}: the leaders {'stop fetching' if paused else 'fetch again'}",
        _commands([command("configs", "alter", "topic", name, f"--set={PAUSED}={value}", "--yes") for name in names]),
        AlterMirrors(tuple(names), change, "paused" if paused else "resumed"),
        [Change(f"{PAUSED} of {each.name}", "true" if each.is_paused else "false", value) for each in topics],
        verb=verb,
        is_destructive=False,
        problem="" if not is_done else _DONE[paused],
        is_done=is_done,
    )


async def plan_promote(session: Session, client: AdminClient, command: Command, names: Sequence[str]) -> Plan:
    """Plan ending mirrors: producers may write into the topics then. The name has to be typed; for several topics,
    their number. Raises ClientError.
    """
    topics = await _mirrors(client, names)
    change = ConfigChange(LINK, AlterOp.DELETE)
    await _checked(client, names, change)
    partitions = await _partitions(session, {topic.name: topic for topic in topics})
    behind = sum(each.lag_records or 0 for each in partitions)
    unknown = sum(each.lag_records is None for each in partitions)
    left = f"{plural(behind, 'record')} of the source {'is' if behind == 1 else 'are'} not copied"
    more = f"; the lag of {plural(unknown, 'partition')} is unknown" if unknown else ""
    waits = "; broker-mirror promote without --force waits until all is copied" if behind or unknown else ""
    return Plan(
        f"Promote {_titled(names)}",
        f"{plural(len(names), 'mirror topic')} with {plural(len(partitions), 'partition')} become writable, and follow "
        f"{_sources(topics)} no longer; {left}{more}{waits}",
        _promotion(command, names),
        AlterMirrors(tuple(names), change, "promoted"),
        [Change(each.id, note=_behind(each)) for each in partitions],
        typed=names[0] if len(names) == 1 else str(len(names)),
        verb="Promote",
    )


async def _partitions(session: Session, topics: Mapping[str, MirrorTopic]) -> list[FlowPartition]:
    flows = (await session.mirrors_now()).flows
    return [each for flow in flows if flow.is_link for each in flow.partitions if each.remote_topic in topics]


def _behind(part: FlowPartition) -> str:
    if part.lag_records is None:
        return f"{part.state}, the lag is unknown"
    if not part.lag_records:
        return f"{part.state}, everything is copied"
    return f"{part.state}, {plural(part.lag_records, 'record')} behind"


def _sources(topics: Sequence[MirrorTopic]) -> str:
    links = sorted({topic.link for topic in topics if topic.link is not None})
    return f"link{'s' if len(links) > 1 else ''} {', '.join(links)}"


def _titled(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{count(len(names))} mirror topics"


def _promotion(command: Command, names: Sequence[str]) -> str:
    """Return the command line that does the same as the act. It also waits until the transactions of the source that
    were open are aborted.
    """
    shown = [part for name in names[:COMMANDS_MAX] for part in ("--topic", name)]
    more = len(names) - COMMANDS_MAX
    line = command.of("broker-mirror", "promote", *shown, "--force", "--yes")
    return line + (f"  # and {more} more" if more > 0 else "")


def _commands(lines: Sequence[str]) -> str:
    more = len(lines) - COMMANDS_MAX
    return " && ".join(lines[:COMMANDS_MAX]) + (f"  # and {more} more" if more > 0 else "")
