"""Bad and large input at a running instance: clear errors, and answers to other clients all the while."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Producer

from broker_registry.security.access import EVERYTHING
from broker_registry.store.keys import Key, KeyType, schema_key
from broker_registry.store.state import State
from broker_registry.store.values import SchemaContent, SchemaValue
from tests.broker_registry.api.support import app_of, call
from tests.broker_registry.operations.support import record_of
from tests.support.broker import BrokerProcess
from tests.support.registry import Registry, RegistryProcess, Reply, running_registry

INT = record_of("x:int")
MEMORY_BYTES_MAX = 1 << 30


def large_avro() -> str:
    fields = (f'{{"name":"field_{number}","type":["null","int"],"default":null}}' for number in range(190_000))
    return f'{{"type":"record","name":"R","fields":[{",".join(fields)}]}}'


def large_json() -> str:
    return json.dumps({"properties": {f"property_{number}": {"type": "string"} for number in range(270_000)}})


def large_protobuf() -> str:
    return "".join(f"message Message{number} {{ string text_of_it = 1; }}\n" for number in range(230_000))


# Each worker collects this module: it makes no text meanwhile.
LARGE = {"AVRO": large_avro, "JSON": large_json, "PROTOBUF": large_protobuf}


def answered_meanwhile(registry: Registry, call: Callable[[], Reply]) -> tuple[Reply, int]:
    """Return the reply to a call, and how many other requests were answered before it."""
    replies: list[Reply] = []
    caller = threading.Thread(target=lambda: replies.append(call()))
    caller.start()
    count = 0
    while caller.is_alive():
        assert registry.call("GET", "/subjects").status == 200
        count += caller.is_alive()
    caller.join()
    return replies[0], count


def peak_bytes(process_id: int) -> int:
    """Return the largest resident memory of a process so far."""
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


@pytest.mark.full
@pytest.mark.parametrize("kind", LARGE)
def test_ten_megabytes_of_text_are_refused_while_others_are_served(
    registry: RegistryProcess, subject: str, kind: str
) -> None:
    """If this fails, one client with a huge schema keeps all others waiting, or ends the registry."""
    text = LARGE[kind]()
    assert len(text) > 10_000_000
    reply, count = answered_meanwhile(registry, lambda: registry.register(subject, text, schemaType=kind))
    # Too large for a record of the topic, or to be checked in time.
    assert (reply.status, reply.body["error_code"]) in {(422, 42209), (422, 42201), (500, 50002)}, reply
    assert count > 0
    assert registry.call("GET", f"/subjects/{subject}/versions").status == 404
    assert peak_bytes(registry.child.pid) < MEMORY_BYTES_MAX


def test_bodies_above_the_bound_are_refused(registry: RegistryProcess, subject: str) -> None:
    """If this fails, a client fills the memory of the registry."""
    address = urlsplit(registry.url)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=60)
    try:
        connection.putrequest("POST", f"/subjects/{subject}/versions")
        connection.putheader("Content-Length", str(17 << 20))
        # The answer comes before the body.
        connection.endheaders()
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["error_code"]) == (413, 413)
    finally:
        connection.close()


@pytest.mark.full
@pytest.mark.timeout(1_200)
def test_a_thousand_versions(registry: RegistryProcess, subject: str) -> None:
    """If this fails, a subject that has grown for years takes no further version."""
    for number in range(1_000):
        reply = registry.register(subject, record_of("x:int", f"f{number}:int=0"))
        assert reply.status == 200, (number, reply)
    registry.call("PUT", f"/config/{subject}", {"compatibility": "FULL_TRANSITIVE"})
    assert registry.get(f"/subjects/{subject}/versions") == list(range(1, 1_001))
    found, count = answered_meanwhile(registry, lambda: registry.register(subject, record_of("x:int", "late:int=0")))
    assert (found.status, found.body["version"]) == (200, 1_001)
    assert count > 0
    assert registry.register(subject, record_of("x:long")).status == 409


def test_references_in_a_circle_end_in_an_error(registry: RegistryProcess, subject: str) -> None:
    """If this fails, the registry follows references for ever. An import may bring a circle; a registration may not."""
    one, two = f"{subject}-1", f"{subject}-2"
    for name in (one, two):
        assert registry.call("PUT", f"/mode/{name}", {"mode": "IMPORT"}).status == 200
    assert registry.register(one, INT, id=1_000_001, version=1).status == 200
    to_one = [{"name": "one", "subject": one, "version": 1}]
    assert registry.register(two, INT, id=1_000_002, version=1, references=to_one).status == 200
    to_two = [{"name": "two", "subject": two, "version": 1}]
    registry.register(one, INT, id=1_000_003, version=1, references=to_two)
    reply = registry.register(subject, INT, references=to_two)
    assert reply.status in (200, 422)
    assert registry.call("GET", f"/subjects/{two}/versions/1?format=resolved").status in (200, 422)
    assert registry.call("GET", "/subjects").status == 200


BAD_BODIES: dict[bytes, tuple[int, int]] = {
    b"": (422, 422),
    b"{": (400, 400),
    b"[]": (400, 400),
    b"null": (422, 422),
    b"\xff": (400, 400),
    b'{"schema": NaN}': (400, 400),
    b'{"schema": "\\ud800"}': (400, 400),
    b'{"schema": []}': (400, 400),
    b'{"schema": 7}': (422, 42201),
    b'{"schema": ""}': (422, 42201),
    b'{"schema": "{"}': (422, 42201),
    b'{"schema": "\\"int\\"", "schemaType": "X"}': (422, 42201),
    b'{"schema": "\\"int\\"", "schemaType": {}}': (400, 400),
    b'{"schema": "\\"int\\"", "id": 99999999999}': (400, 400),
    b'{"schema": "\\"int\\"", "id": true}': (400, 400),
    b'{"schema": "\\"int\\"", "version": "x"}': (400, 400),
    b'{"schema": "\\"int\\"", "version": "1_0"}': (400, 400),
    b'{"schema": "\\"int\\"", "version": -2}': (422, 42202),
    b'{"schema": "\\"int\\"", "references": {}}': (400, 400),
    b'{"schema": "\\"int\\"", "references": ["n"]}': (400, 400),
    b'{"schema": "\\"int\\"", "references": [{"name": "n"}]}': (422, 42201),
    b'{"schema": "\\"int\\"", "references": [{"name": "n", "subject": "none", "version": 1}]}': (422, 42201),
    b'{"schema": "\\"int\\"", "metadata": []}': (400, 400),
    b'{"schema": "\\"int\\"", "ruleSet": {"domainRules": [{"name": "r", "kind": "X"}]}}': (400, 400),
    b'{"schema": "\\"int\\"", "ruleSet": {"domainRules": [{"name": "1"}]}}': (422, 42210),
    b'{"schema": "\\"int\\"", "ruleSet": {"migrationRules": [{"name": "r", "type": "CEL"}]}}': (422, 42210),
    b"[" * 100_000: (400, 400),
}


@pytest.mark.parametrize("body", BAD_BODIES, ids=lambda body: body[:60].decode("latin-1"))
def test_bad_bodies_have_clear_errors(registry: RegistryProcess, subject: str, body: bytes) -> None:
    """If this fails, a client with a mistake sees an internal error, or none."""
    reply = registry.call("POST", f"/subjects/{subject}/versions", body)
    assert (reply.status, reply.body["error_code"]) == BAD_BODIES[body], reply
    assert reply.body["message"]


BAD_REQUESTS: dict[tuple[str, str], int] = {
    ("GET", "/schemas/ids/2147483647"): 40403,
    ("GET", "/schemas/ids/2147483648"): 404,
    ("GET", "/schemas/ids/" + "9" * 5_000): 404,
    ("GET", "/schemas/ids/x"): 404,
    ("GET", "/schemas/ids/-1"): 40403,
    ("GET", "/schemas/ids/1_0"): 404,
    ("GET", "/subjects?limit=1_0"): 404,
    ("GET", "/subjects?offset=2147483648"): 404,
    ("GET", "/subjects/none/versions/1_0"): 42202,
    ("GET", "/subjects/none/versions/-2"): 42202,
    ("GET", "/schemas/guids/x"): 40403,
    ("GET", "/subjects/none/versions/0"): 42202,
    ("GET", "/subjects/none/versions/2147483648"): 42202,
    ("GET", "/subjects/none/versions/1"): 40401,
    ("GET", "/subjects/%ff"): 400,
    ("GET", "/subjects/100%/versions"): 400,
    ("POST", "/subjects/%zz/versions"): 400,
    ("POST", "/subjects/none/versions?format=logical"): 404,
    ("POST", "/subjects/none?format=LOGICAL"): 404,
    ("GET", "/subjects/%00/versions"): 40401,
    ("GET", "/subjects/%2F..%2F..%2Fetc%2Fpasswd/versions"): 40401,
    ("GET", "/subjects/%E2%98%83/versions"): 40401,
    ("GET", "/subjects/none/versions/%31"): 40401,
    ("GET", "/nothing"): 404,
    ("PATCH", "/subjects"): 405,
    ("DELETE", "/subjects/none"): 40401,
    ("POST", "/subjects/%0A/versions"): 42208,
    ("POST", "/subjects/:.__GLOBAL:x/versions"): 42208,
    ("PUT", "/mode/x"): 42204,
    ("PUT", "/config/x"): 42203,
}


@pytest.mark.parametrize("request_line", BAD_REQUESTS, ids=lambda line: " ".join(line)[:60])
def test_bad_paths_have_clear_errors(registry: RegistryProcess, request_line: tuple[str, str]) -> None:
    """If this fails, a client with a mistake sees an internal error, or another subject."""
    method, path = request_line
    bodies: dict[str, Any] = {"POST": {"schema": INT}, "PUT": {"mode": "X", "compatibility": "X"}}
    if path.startswith(("/mode", "/config")):
        bodies["PUT"] = {"mode": "X"} if path.startswith("/mode") else {"compatibility": "X"}
    reply = registry.call(method, path, bodies.get(method))
    assert reply.body["error_code"] == BAD_REQUESTS[request_line], reply
    assert reply.status == int(str(BAD_REQUESTS[request_line])[:3])


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", "/config", "DELETE, GET, HEAD, PUT"),
        ("GET", "/compatibility/subjects/none/versions", "POST"),
        ("PUT", "/subjects/none/versions/1", "DELETE, GET, HEAD"),
    ],
)
def test_the_methods_of_a_resource_are_named(method: str, path: str, allowed: str) -> None:
    """If this fails, a tool that tries a wrong method does not learn the right ones (RFC 9110, section 15.5.6)."""
    reply = call(app_of(State(), EVERYTHING), method, path)
    assert (reply.error, reply.headers[b"allow"].decode()) == ((405, 405), allowed)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/html"}, 415),
        ({"Content-Type": "x" * 1_000}, 415),
        ({"Content-Type": "application/json; charset=latin-1"}, 200),
        ({"Accept": "text/html"}, 406),
        ({"Accept": "*/*;q=x"}, 406),
        ({"Accept": "application/json"}, 200),
    ],
    ids=str,
)
def test_types_of_content(registry: RegistryProcess, subject: str, headers: dict[str, str], status: int) -> None:
    """If this fails, a tool that sends or wants something else gets a schema registered, or an internal error."""
    reply = registry.call("POST", f"/subjects/{subject}/versions", {"schema": INT}, headers)
    assert reply.status == status, reply


def test_requests_that_are_no_http(registry: RegistryProcess) -> None:
    """If this fails, a port scanner ends the registry."""
    address = urlsplit(registry.url)
    assert address.hostname is not None
    for data in (b"\0" * 100, b"GET\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"\x16\x03\x01", b""):
        with socket.create_connection((address.hostname, address.port or 0), 10) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
    assert registry.call("GET", "/subjects").status == 200


def test_garbage_in_the_topic_is_skipped(broker: BrokerProcess, topic: str, tmp_path: Path) -> None:
    """If this fails, one foreign record ends all instances, and each new one at its start."""
    with running_registry(broker.bootstrap, tmp_path, ["--topic", topic]) as first:
        assert first.register("good", INT).body["id"] == 1
        good = SchemaValue("other", 1, 5, SchemaContent("AVRO", '"int"'))
        _send(
            broker,
            topic,
            [
                (b"garbage", b"garbage"),
                (b"", b""),
                (b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":7}', good.encode()),
                (b'{"keytype":"LATER","subject":"a","magic":0}', b"{}"),
                (schema_key("bad", 1).encode(), b'{"subject":"bad","version":1,"id":9,"schema":7}'),
                (Key(KeyType.CONFIG, "good").encode(), b'{"compatibilityLevel":[]}'),
                (good.key.encode(), good.encode()),
            ],
        )
        reply = first.register("new", record_of("y:int"))
        # The id of the schema that cannot be read is not given again.
        assert (reply.status, reply.body["id"]) == (200, 10)
        assert first.get("/subjects") == ["good", "new", "other"]
        assert first.get("/_health")["status"]["problems"] > 0
    with running_registry(broker.bootstrap, tmp_path / "again", ["--topic", topic]) as second:
        assert second.get("/subjects") == ["good", "new", "other"]
        assert second.get("/schemas/ids/5")["schema"] == '"int"'


def _send(broker: BrokerProcess, topic: str, records: list[tuple[bytes, bytes]]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for key, value in records:
        producer.produce(topic, value, key, partition=0)
    assert producer.flush(60) == 0
