"""Names of topics and groups that contain a text, which the palette finds besides pages and acts."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.turns import Turns
from broker_cy.console.listeners import Source
from broker_cy.reporting.foreign_text import clean
from dashboard.collector.channel import FILTER_CHARACTERS_MAX, Channel, Params, channel
from dashboard.collector.patches import State

# Users do not read a list longer than a screen; they type more.
NAMES_MAX: Final = 20
_SEPARATORS: Final = ".-_/: "


class Match(NamedTuple):
    """A name and how well it matches: the smallest is the best."""

    rank: int
    length: int
    name: str
    kind: str


def rank_of(name: str, text: str) -> int | None:
    """Return 0 if `name` is `text`, 1 if it begins with it, 2 if a word in it does, 3 if it contains it, else None.

    Both are casefolded.
    """
    at = name.find(text)
    if at < 0:
        return None
    if at == 0:
        return 0 if len(name) == len(text) else 1
    while at >= 0:
        if name[at - 1] in _SEPARATORS:
            return 2
        at = name.find(text, at + 1)
    return 3


@channel("names")
class Names(Channel):
    """At most NAMES_MAX topics and groups whose names contain `filter`, the best first; none for an empty filter."""

    PARAMS = frozenset({"filter"})

    @classmethod
    def check(cls, params: Params) -> dict[str, str]:
        found = super().check(params)
        if len(found.get("filter", "")) > FILTER_CHARACTERS_MAX:
            raise ClientError(Failure.INVALID, f"a filter may have {FILTER_CHARACTERS_MAX} characters")
        return found

    def sources(self) -> Sequence[Source]:
        return [self.session.topics(), self.session.groups()]

    async def state(self) -> State | None:
        topics, groups = self.session.topics().value, self.session.groups().value
        text = self.params.get("filter", "").strip().casefold()
        if not text:
            return {"found": [], "more": 0}
        if topics is None and groups is None:
            return None
        seen_topics = (each.name for each in topics or () if self.scope.sees_topic(each.name))
        seen_groups = (each.group_id for each in groups or () if self.scope.sees_group(each.group_id))
        matches = await _matches("topic", seen_topics, text) + await _matches("group", seen_groups, text)
        best = heapq.nsmallest(NAMES_MAX, matches)
        return {
            "found": [{"kind": each.kind, "name": each.name, "text": clean(each.name)} for each in best],
            "more": len(matches) - len(best),
        }


async def _matches(kind: str, names: Iterable[str], text: str) -> list[Match]:
    found: list[Match] = []
    turns = Turns()
    for number, name in enumerate(names):
        rank = rank_of(name.casefold(), text)
        if rank is not None:
            found.append(Match(rank, len(name), name, kind))
        if number % 200 == 0:
            await turns.pause()
    return found
