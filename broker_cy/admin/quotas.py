"""Quotas of users, client ids and addresses (KIP-546, KIP-612)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker_cy.admin.caller import Caller
from broker_cy.client.errors import Problem, problem_of
from broker_cy.core.classes import dataclass
from broker_cy.metrics.events import entity_text
from broker_cy.wire import messages

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
# How a component of a filter selects entities.
_EXACT, _DEFAULT = 0, 1

# Names by type; the name None is the default, for all names that have no quota of their own.
Entity = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class QuotaEntry:
    """An entity, and the values of its quotas by their keys."""

    entity: dict[str, str | None]
    values: dict[str, float]


class QuotaCalls:
    """`client.quotas`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def describe(self, entity: Entity, *, strict: bool = False) -> list[QuotaEntry]:
        """The quotas of entities that have these names, and others unless `strict`; of all for no names. Raises
        ClientError.
        """
        request = messages.DescribeClientQuotasRequest
        answer = await self._caller.ask(
            request(
                components=[
                    request.ComponentData(entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name)
                    for kind, name in entity.items()
                ],
                strict=strict,
            ),
            messages.DescribeClientQuotasResponse,
            lambda got: problem_of(got.error_code, got.error_message),
        )
        found = [
            QuotaEntry(
                dict(sorted(((part.entity_type, part.entity_name) for part in each.entity), reverse=True)),
                dict(sorted((value.key, value.value) for value in each.values)),
            )
            for each in answer.entries or ()
        ]
        return sorted(found, key=lambda each: [(kind, name is None, name or "") for kind, name in each.entity.items()])

    async def alter(self, entity: Entity, changes: Mapping[str, float | None], *, validate_only: bool = False) -> None:
        """Set quotas of one entity; the value None removes one. Raises ClientError."""
        request = messages.AlterClientQuotasRequest
        entry = request.EntryData(
            entity=[request.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
            ops=[request.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in changes.items()],
        )
        await self._caller.ask(
            request(entries=[entry], validate_only=validate_only),
            messages.AlterClientQuotasResponse,
            _problem,
            controller=True,
            what=entity_text(entity),
        )


def _problem(answer: messages.AlterClientQuotasResponse) -> Problem | None:
    problems = (problem_of(each.error_code, each.error_message) for each in answer.entries)
    return next((problem for problem in problems if problem is not None), None)
