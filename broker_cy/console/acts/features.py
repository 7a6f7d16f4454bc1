"""The act on features: finalize their levels (KIP-584)."""

from __future__ import annotations

from collections.abc import Mapping

from broker_cy.admin import AdminClient
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.plan import Change, Command, Plan, Report
from broker_cy.core.classes import dataclass
from broker_cy.reporting.numbers import plural

# Levels are 16 bits wide in the protocol.
_LEVEL_MAX = (1 << 15) - 1


@dataclass(frozen=True, slots=True)
class FinalizeFeatures:
    levels: tuple[tuple[str, int], ...]

    async def run(self, client: AdminClient) -> Report:
        await client.cluster.finalize(dict(self.levels))
        said = ", ".join(f"{name} is {level}" for name, level in self.levels)
        return Report(f"{said} now", tuple(name for name, _ in self.levels))


async def plan_finalize(client: AdminClient, command: Command, levels: Mapping[str, int]) -> Plan:
    """Plan to finalize levels of features, without the features that already have theirs. Raises ClientError if the
    broker that answers does not know a feature, or does not support a level.
    """
    known = {each.name: each for each in await client.cluster.features()}
    for name, level in levels.items():
        if name not in known and level:
            raise ClientError(
                Failure.INVALID, f"no broker has this feature; there are {', '.join(known) or 'none'}", what=name
            )
        found = known.get(name)
        if found is not None and level and not found.supported_min <= level <= found.supported_max:
            supported = f"{found.supported_min} to {found.supported_max}"
            raise ClientError(Failure.INVALID, f"the broker supports levels {supported}, and not {level}", what=name)
    now = {name: (known[name].finalized or 0) if name in known else 0 for name in levels}
    changed = {name: level for name, level in levels.items() if now[name] != level}
    return Plan(
        "Finalize features",
        plural(len(changed), "feature"),
        command("cluster", "finalize", *(f"{name}={level}" for name, level in levels.items()), "--yes"),
        FinalizeFeatures(tuple(changed.items())),
        [Change(name, str(now[name]), str(level)) for name, level in changed.items()],
        verb="Finalize",
        problem="" if changed else "the features have these levels already",
        is_done=not changed,
    )


def parse_level(text: str) -> tuple[str, int]:
    """Parse `group.version=0`. Raises ValueError, which says what is allowed."""
    name, _, level = text.partition("=")
    if not name or not (level.isascii() and level.isdecimal()) or int(level) > _LEVEL_MAX:
        raise ValueError(
            f"{text!r}: FEATURE=LEVEL is expected, such as group.version=0, with a level up to {_LEVEL_MAX}"
        )
    return name, int(level)
