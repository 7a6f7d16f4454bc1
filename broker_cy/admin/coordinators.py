"""The coordinator of a group or a transactional id (KIP-699)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from enum import IntEnum

from broker_cy.admin.metadata import Metadata
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Problem, problem_of, refused
from broker_cy.client.pool import Peer, common_version
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from broker_cy.wire.api_keys import ApiKey

_API = "FindCoordinator"
_BATCHED_FROM = 4
# Keys of one FindCoordinator request.
KEYS_MAX = 1_000
# Coordinators that are kept. Beyond that, all are forgotten and looked up again.
CACHED_MAX = 100_000


class CoordinatorType(IntEnum):
    """`key_type` of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1


class Coordinators:
    """Locates group ids or transactional ids at their coordinators; one object per type and client."""

    def __init__(self, metadata: Metadata, kind: CoordinatorType) -> None:
        self.metadata = metadata
        self.kind = kind
        self._known: dict[str, int] = {}

    @property
    def noun(self) -> str:
        return "group" if self.kind is CoordinatorType.GROUP else "transactional id"

    async def locate(self, keys: list[str], deadline: Deadline) -> tuple[dict[Peer, list[str]], dict[str, ClientError]]:
        failed: dict[str, ClientError] = {}
        missing = [key for key in keys if key not in self._known]
        if len(self._known) + len(missing) > CACHED_MAX:
            self._known.clear()
            missing = list(keys)
        if missing:
            failed = await self._find(missing, deadline)
        by_node: dict[int, list[str]] = {}
        for key in keys:
            if key not in failed:
                by_node.setdefault(self._known[key], []).append(key)
        places: dict[Peer, list[str]] = {}
        for node_id, theirs in by_node.items():
            try:
                places[await self.metadata.peer(node_id, deadline)] = theirs
            except ClientError as error:
                # That broker has left the cluster, and coordinates no longer.
                self.forget(theirs)
                gone = Problem(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.reason)
                failed.update({key: refused(gone, str(node_id), _API, f"{self.noun} {key}") for key in theirs})
        return places, failed

    def forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._known.pop(key, None)

    async def _find(self, keys: list[str], deadline: Deadline) -> dict[str, ClientError]:
        """Look up the coordinators of `keys`; returns the keys that have none now."""
        peer = await self.metadata.any_peer(deadline)
        link = await self.metadata.pool.link(peer, deadline)
        version = common_version(link, ApiKey.FIND_COORDINATOR, _API, 0 if self.kind is CoordinatorType.GROUP else 1, 6)
        failed: dict[str, ClientError] = {}
        size = KEYS_MAX if version >= _BATCHED_FROM else 1

        async def find(part: list[str]) -> None:
            if version >= _BATCHED_FROM:
                request = messages.FindCoordinatorRequest(key_type=self.kind, coordinator_keys=part)
            else:
                request = messages.FindCoordinatorRequest(key_type=self.kind, key=part[0])
            answer, _ = await self.metadata.pool.ask(peer, request, messages.FindCoordinatorResponse, deadline)
            if version >= _BATCHED_FROM:
                found = {each.key: (each.error_code, each.error_message, each.node_id) for each in answer.coordinators}
            else:
                found = {part[0]: (answer.error_code, answer.error_message, answer.node_id)}
            for key in part:
                code, message, node_id = found.get(
                    key, (ErrorCode.COORDINATOR_NOT_AVAILABLE, "the answer does not mention it", -1)
                )
                if (problem := problem_of(code, message)) is not None:
                    failed[key] = refused(problem, peer.name, _API, f"{self.noun} {key}")
                else:
                    self._known[key] = node_id

        await asyncio.gather(*(find(keys[start : start + size]) for start in range(0, len(keys), size)))
        return failed
