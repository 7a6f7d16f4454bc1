"""Which APIs are asked for the description of a group."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker_cy.admin import group_descriptions
from broker_cy.admin.caller import Caller
from broker_cy.admin.group_descriptions import Descriptions
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import Problem
from broker_cy.client.pool import Peer
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from broker_cy.wire.api_keys import ApiKey

PEER = cast(Peer, SimpleNamespace(node_id=1))
DEADLINE = cast(Deadline, None)
APIS = (
    ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.DESCRIBE_GROUPS, ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.STREAMS_GROUP_DESCRIBE,
)  # fmt: skip


class Pool:
    """A coordinator whose groups are `types`: the request that describes each."""

    def __init__(self, types: dict[str, type[Any]]) -> None:
        self.types = types
        # The requests whose protocol is switched off.
        self.off: set[type[Any]] = set()
        self.asked: list[tuple[str, list[str]]] = []

    async def link(self, peer: Peer, deadline: Deadline) -> Any:
        return SimpleNamespace(versions=dict.fromkeys(APIS, (0, 9)))

    async def ask(self, peer: Peer, request: Any, response: Any, deadline: Deadline) -> tuple[Any, int]:
        is_classic = isinstance(request, messages.DescribeGroupsRequest)
        keys = list(request.groups if is_classic else request.group_ids)
        self.asked.append((type(request).__name__.removesuffix("Request"), keys))
        kind = response.DescribedGroup
        found = []
        for key in keys:
            group = kind(group_id=key)
            if type(request) in self.off:
                group.error_code = ErrorCode.UNSUPPORTED_VERSION
            elif self.types.get(key) is not type(request):
                group.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            found.append(group)
        return response(groups=found), 6


def describe(descriptions: Descriptions, *keys: str) -> dict[str, str]:
    found = asyncio.run(descriptions.of(PEER, list(keys), DEADLINE))
    return {key: getattr(each, "group_type", "") or "missing" for key, each in found.items()}


def with_pool(**types: type[Any]) -> tuple[Descriptions, Pool]:
    pool = Pool(dict(types))
    return Descriptions(cast(Caller, SimpleNamespace(pool=pool))), pool


def test_group_is_asked_for_by_its_type_the_next_time() -> None:
    """If this fails, a page of a share group that is refreshed causes two errors each time, which the broker counts."""
    descriptions, pool = with_pool(s=messages.ShareGroupDescribeRequest, c=messages.DescribeGroupsRequest)
    for _ in range(2):
        assert describe(descriptions, "s", "c") == {"s": "share", "c": "classic"}
    first, again = pool.asked[:3], pool.asked[3:]
    assert first == [
        ("ConsumerGroupDescribe", ["s", "c"]),
        ("DescribeGroups", ["s", "c"]),
        ("ShareGroupDescribe", ["s"]),
    ]
    assert again == [("DescribeGroups", ["c"]), ("ShareGroupDescribe", ["s"])]


def test_group_of_another_type_than_before_is_found() -> None:
    """If this fails, a group that was deleted and created again as another type is missing from the tools."""
    descriptions, pool = with_pool(g=messages.ShareGroupDescribeRequest)
    assert describe(descriptions, "g") == {"g": "share"}
    pool.types["g"] = messages.StreamsGroupDescribeRequest
    assert describe(descriptions, "g") == {"g": "streams"}
    del pool.types["g"]
    assert describe(descriptions, "g") == {"g": "missing"}


def test_few_groups_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a tool that runs for months keeps the name of each group that ever was."""
    monkeypatch.setattr(group_descriptions, "REMEMBERED_MAX", 2)
    types = dict.fromkeys("abc", messages.ConsumerGroupDescribeRequest)
    descriptions, _ = with_pool(**types)
    assert describe(descriptions, *types) == dict.fromkeys("abc", "consumer")
    assert list(descriptions._answered_by) == ["b", "c"]


def test_a_protocol_that_is_switched_off_is_named() -> None:
    """If this fails, an operator who has switched share groups off reads that a share group is not a classic one."""
    descriptions, pool = with_pool(s=messages.ShareGroupDescribeRequest, c=messages.DescribeGroupsRequest)
    pool.off = {messages.ShareGroupDescribeRequest}
    assert describe(descriptions, "s", "c") == {"s": "missing", "c": "classic"}
    problem = asyncio.run(descriptions.of(PEER, ["s"], DEADLINE))["s"]
    assert isinstance(problem, Problem)
    assert (problem.code, "share.version" in problem.message) == (ErrorCode.GROUP_ID_NOT_FOUND, True)
    pool.off = set()
    assert describe(descriptions, "s") == {"s": "share"}
