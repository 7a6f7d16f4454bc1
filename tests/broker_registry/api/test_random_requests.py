"""Random requests, good ones and bad ones: each has an answer with a code of the API, and the state stays readable."""

from __future__ import annotations

import asyncio
import random
from typing import Any
from urllib.parse import quote

import pytest

from broker_registry.errors import Code
from broker_registry.store.state import State
from tests.broker_registry.api.in_memory import MemoryApi
from tests.broker_registry.store.test_damaged import ODD, read_all
from tests.support.tiers import by_tier

ROUNDS, CALLS = by_tier(10, 300), 60
SUBJECTS = ("a", "b-value", ":.c:a", ":.c:", ":.__GLOBAL:", ":*:", "x/y", "é", "", " ", "%", "a b", ":.:a", "\0", "a\n")
AVRO = '{"type":"record","name":"R","fields":[{"name":"x","type":"int"}]}'
TEXTS = (
    AVRO,
    AVRO.replace('"int"', '"long"'),
    AVRO.replace('"int"', '["null","int"],"default":null'),
    '"string"',
    '{"type":"object","properties":{"x":{"type":"integer"}}}',
    '{"$ref":"n"}',
    'syntax = "proto3"; message A { int32 x = 1; }',
    'syntax = "proto3"; import "n"; message A { B x = 1; }',
    'syntax = "proto3"; message B { string x = 1; }',
    *("", " ", "{", "[]", "7", "\ud83d\ude00", '"\\ud800"', "\0", "null", "message", '{"type":"R"}', "syntax"),
)
NUMBERS = ("1", "2", "latest", "-1", "0", "-2", "99", "x", "2147483648", "9" * 30, "1.0", " 1", "%31", "١", "")
PATHS = (
    *("/subjects", "/subjects/{s}", "/subjects/{s}/versions", "/subjects/{s}/versions/{n}", "/subjects/{s}/metadata"),
    *("/subjects/{s}/versions/{n}/schema", "/subjects/{s}/versions/{n}/referencedby", "/schemas", "/schemas/types"),
    *("/schemas/ids/{n}", "/schemas/ids/{n}/schema", "/schemas/ids/{n}/subjects", "/schemas/ids/{n}/versions"),
    *("/schemas/guids/{n}", "/schemas/guids/{n}/ids", "/compatibility/subjects/{s}/versions", "/contexts", "/"),
    *("/compatibility/subjects/{s}/versions/{n}", "/config", "/config/{s}", "/mode", "/mode/{s}", "/contexts/{s}"),
    *("/contexts/{s}/subjects", "/contexts/{s}/schemas/ids/{n}", "/contexts/{s}/config", "/nothing", "/v1/metadata/id"),
)
FLAGS = ("normalize", "deleted", "permanent", "deletedOnly", "verbose", "defaultToGlobal", "force", "recursive")
CODES = {int(code) for code in Code} | {400, 404, 405, 406, 409, 413, 415, 422}


class Requests:
    def __init__(self, seed: int) -> None:
        self._source = random.Random(seed)

    def next(self) -> tuple[str, str, Any, dict[str, str]]:
        source = self._source
        method, path = source.choice(("GET", "POST", "POST", "PUT", "DELETE", "HEAD", "PATCH")), source.choice(PATHS)
        if source.random() < 0.4:
            method, path = "POST", "/subjects/{s}/versions"
        subject = source.choice(SUBJECTS if source.random() < 0.3 else SUBJECTS[:3])
        path = path.replace("{s}", quote(subject, safe="")).replace("{n}", source.choice(NUMBERS))
        if source.random() < 0.05:
            path = path.replace("e", source.choice(("%", "%zz", "%ff", "//", "%2f", "..", "?", "\xff")), 1)
        parameters = [f"{name}={source.choice(('true', 'false', '', 'x', '-1', '9' * 25))}" for name in self._flags()]
        if source.random() < 0.1:
            parameters.append(
                source.choice(("offset=-5", "limit=0", "limit=x", "format=resolved", "key=a&value=b", "&=&"))
            )
        headers = {}
        if source.random() < 0.03:
            headers = {source.choice(("content-type", "accept")): source.choice(("text/html", "x", ";;q=x", "*/*;q=0"))}
        return method, f"{path}?{'&'.join(parameters)}", self._body() if method in ("POST", "PUT") else None, headers

    def _flags(self) -> list[str]:
        return self._source.sample(FLAGS, self._source.choice((0, 0, 1, 2)))

    def _body(self) -> Any:
        source = self._source
        body: dict[str, Any] = {"schema": source.choice(TEXTS if source.random() < 0.4 else TEXTS[:4])}
        more: tuple[tuple[str, Any], ...] = (
            ("schemaType", source.choice(("AVRO", "JSON", "PROTOBUF", "json", "X"))),
            (
                "references",
                [{"name": "n", "subject": source.choice(SUBJECTS), "version": source.choice((1, 2, -1, 0))}],
            ),
            ("metadata", {"properties": {"confluent:version": "1", "owner": "o"}, "tags": {"$.x": ["PII"]}}),
            ("ruleSet", {"domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL"}]}),
            ("version", source.choice((0, 1, -1, 7, 2**31))),
            ("id", source.choice((1, -1, 5, 2**31 - 1, 2**40))),
            ("compatibility", source.choice(("FULL", "none", "X", ""))),
            ("compatibilityPolicy", source.choice(("LENIENT", "X"))),
            ("alias", source.choice(SUBJECTS)),
            ("mode", source.choice(("IMPORT", "READONLY", "READWRITE", "FORWARD", "X"))),
            ("overrideMetadata", {"properties": {"a": "b"}}),
            ("normalize", True),
        )
        body |= source.sample(more, source.choice((0, 0, 1, 2)))
        if source.random() < 0.15:
            body[source.choice(sorted(body))] = source.choice(ODD)
        if source.random() < 0.05:
            return source.choice((b"", b"{", b"null", b"[]", b"\xff", b'{"schema":"\\ud800"}', b"7", b'"x"', b"{}"))
        return body


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_each_request_has_an_answer_of_the_api(seed: int) -> None:
    """If this fails, a client can bring about internal errors, or a state that the next instance reads otherwise."""

    async def send_all() -> MemoryApi:
        api, requests = MemoryApi(), Requests(seed)
        try:
            for _ in range(CALLS):
                method, path, body, headers = requests.next()
                reply = await api.acall(method, path, body, headers)
                if reply.status >= 400 and method != "HEAD":
                    assert reply.body["error_code"] in CODES, (method, path, body, reply)
                    assert reply.body["message"], (method, path, body, reply)
                assert reply.status < 500, (method, path, body, reply)
            return api
        finally:
            await api.service.checker.close()

    state = asyncio.run(send_all()).service.state
    assert state.problems_total == 0, state.problems
    read_all(state)


def test_random_requests_register_schemas() -> None:
    """The requests above are not all refused."""

    async def versions_of(seed: int) -> State:
        api, requests = MemoryApi(), Requests(seed)
        for _ in range(CALLS):
            await api.acall(*requests.next())
        await api.service.checker.close()
        return api.service.state

    assert sum(len(list(asyncio.run(versions_of(seed)).all_values())) for seed in range(5)) > 10


def test_messages_with_half_of_a_character_are_answers() -> None:
    """If this fails, a client waits for an answer that never comes."""
    api = MemoryApi()
    for path in ("/subjects/a/versions", "/compatibility/subjects/a/versions?verbose=true"):
        reply = api.call("POST", path, {"schema": '"\\ud800"'})
        assert "Undefined schema: ?" in str(reply.body), reply
