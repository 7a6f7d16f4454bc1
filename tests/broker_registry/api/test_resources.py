"""The REST API of a running instance: resources, parameters, contexts, types of content, bad input."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.broker_registry.operations.support import record_of
from tests.support.registry import Registry, RegistryProcess

INT = record_of("x:int")
TWO = record_of("x:int", "y:int=0")


def error(registry: Registry, method: str, path: str, body: Any = None) -> tuple[int, int, str]:
    reply = registry.call(method, path, body)
    return reply.status, reply.body["error_code"], reply.body["message"]


def test_a_schema_is_found_in_all_ways(registry: RegistryProcess, subject: str) -> None:
    """If this fails, clients of one kind cannot find what others registered."""
    reply = registry.register(subject, INT)
    assert reply.status == 200
    schema_id, guid = reply.body["id"], reply.body["guid"]
    assert reply.body == {"id": schema_id, "version": 1, "guid": guid, "schemaType": "AVRO", "schema": INT}
    by_id = registry.get(f"/schemas/ids/{schema_id}")
    stamp = by_id.pop("ts")
    assert by_id == {"guid": guid, "schemaType": "AVRO", "schema": INT, "deleted": False}
    whole = {"subject": subject, "version": 1, "id": schema_id, **by_id, "ts": stamp}
    assert registry.get(f"/subjects/{subject}/versions/1") == whole
    assert registry.get(f"/subjects/{subject}/versions/latest") == whole
    assert registry.get(f"/subjects/{subject}/versions/-1") == whole
    assert registry.call("POST", f"/subjects/{subject}", {"schema": INT}).body == whole
    assert registry.get(f"/subjects/{subject}/versions/1/schema") == json.loads(INT)
    assert registry.get(f"/schemas/ids/{schema_id}/schema") == json.loads(INT)
    assert registry.get(f"/schemas/ids/{schema_id}/subjects") == [subject]
    assert registry.get(f"/schemas/ids/{schema_id}/versions") == [{"subject": subject, "version": 1}]
    assert registry.get(f"/schemas/guids/{guid}")["schema"] == INT
    assert registry.get(f"/schemas/guids/{guid}/ids") == [{"context": ".", "id": schema_id}]
    assert registry.get(f"/schemas/ids/{schema_id}?fetchMaxId=true")["maxId"] >= schema_id
    assert whole in registry.get(f"/schemas?subjectPrefix={subject}")
    assert subject in registry.get("/subjects")
    assert registry.get(f"/subjects/{subject}/versions") == [1]
    assert sorted(registry.get("/schemas/types")) == ["AVRO", "JSON", "PROTOBUF"]
    assert registry.get("/") == {}


def test_formats_and_tags_are_left_out(registry: RegistryProcess, subject: str) -> None:
    """If this fails, a client gets a schema of another language than it asked for, or one without its tags."""
    schema_id = registry.register(subject, INT).body["id"]
    for path in (f"/schemas/ids/{schema_id}", f"/schemas/ids/{schema_id}/schema", f"/subjects/{subject}/versions/1"):
        assert error(registry, "GET", f"{path}?format=Logical")[:2] == (404, 404)
        assert error(registry, "GET", f"{path}?findTags=PII")[:2] == (404, 404)
        assert registry.call("GET", f"{path}?format=unknown").status == 200
    for name, value in (("schemaTagsToAdd", [{}]), ("schemaTagsToRemove", [{}]), ("propagateSchemaTags", True)):
        assert registry.register(subject, INT, **{name: value}).status == 422
    assert registry.register(subject, INT, schemaTagsToAdd=None, propagateSchemaTags=False).status == 200


def test_deletions_and_their_lists(registry: RegistryProcess, subject: str) -> None:
    """If this fails, tools show deleted versions, or cannot restore them."""
    for text in (INT, TWO):
        registry.register(subject, text)
    assert registry.call("DELETE", f"/subjects/{subject}/versions/1").body == 1
    assert registry.get(f"/subjects/{subject}/versions") == [2]
    assert registry.get(f"/subjects/{subject}/versions?deleted=true") == [1, 2]
    assert registry.get(f"/subjects/{subject}/versions?deletedOnly=true") == [1]
    assert registry.get(f"/subjects/{subject}/versions?deletedAsNegative=true") == [-1, 2]
    assert registry.get(f"/subjects/{subject}/versions/1?deleted=true")["deleted"] is True
    assert error(registry, "GET", f"/subjects/{subject}/versions/1") == (404, 40402, "Version 1 not found.")
    assert registry.call("DELETE", f"/subjects/{subject}").body == [2]
    assert subject not in registry.get("/subjects")
    assert subject in registry.get("/subjects?deleted=true")
    assert subject in registry.get("/subjects?deletedOnly=true")
    assert registry.call("DELETE", f"/subjects/{subject}?permanent=true").body == [1, 2]
    assert error(registry, "GET", f"/subjects/{subject}/versions") == (404, 40401, f"Subject '{subject}' not found.")


def test_contexts_have_ids_of_their_own(registry: RegistryProcess, subject: str) -> None:
    """If this fails, two environments in one registry mix their ids."""
    context = f".{subject}"
    name = f":{context}:orders"
    reply = registry.register(name, INT)
    assert (reply.body["id"], reply.body["version"]) == (1, 1)
    assert context in registry.get("/contexts")
    assert registry.get(f"/subjects?subjectPrefix=:{context}:") == [name]
    assert registry.get(f"/contexts/{context}/subjects") == [name]
    assert registry.get(f"/contexts/{context}/subjects/orders/versions/1")["subject"] == name
    assert registry.get(f"/contexts/{context}/schemas/ids/1")["schema"] == INT
    assert registry.get(f"/schemas/ids/1?subject=:{context}:")["subject"] == name
    put = registry.call("PUT", f"/contexts/{context}/config", {"compatibility": "NONE"})
    assert put.body == {"compatibility": "NONE"}
    assert registry.get(f"/config/:{context}:") == {"compatibilityLevel": "NONE"}
    assert registry.register(name, '"string"').body["version"] == 2
    for text in (f":{context}:", context, subject):
        refused = error(registry, "DELETE", f"/contexts/{text}")
        assert refused == (422, 42211, f"The specified context ':{context}:' is not empty.")
    for permanent in ("false", "true"):
        assert registry.call("DELETE", f"/subjects/{name}?permanent={permanent}").body == [1, 2]
    assert registry.call("DELETE", f"/contexts/{context}").status == 204
    assert context not in registry.get("/contexts")
    assert error(registry, "DELETE", "/contexts/.")[:2] == (405, 405)


def test_an_alias_leads_to_its_subject(registry: RegistryProcess, subject: str) -> None:
    """If this fails, a renamed subject breaks the clients that know its old name."""
    registry.register(subject, INT)
    registry.call("PUT", f"/config/{subject}-old", {"alias": subject})
    assert registry.get(f"/subjects/{subject}-old/versions/1")["subject"] == subject
    listed = registry.get(f"/schemas?subjectPrefix={subject}&aliases=true")
    assert [(each["subject"], each["aliases"]) for each in listed] == [(subject, [f"{subject}-old"])]


def test_subjects_may_have_slashes_and_any_letters(registry: RegistryProcess, subject: str) -> None:
    """If this fails, a subject with such a name cannot be reached."""
    name = f"{subject}/ü %-value"
    assert registry.register(name, INT).status == 200
    assert registry.get(f"/subjects/{quote(name, safe='')}/versions/1")["subject"] == name


def test_compatibility_is_checked_without_a_change(registry: RegistryProcess, subject: str) -> None:
    """If this fails, a build cannot ask before it deploys."""
    registry.register(subject, INT)
    body = {"schema": record_of("x:int", "y:int")}
    path = f"/compatibility/subjects/{subject}/versions"
    assert registry.call("POST", f"{path}/1", body).body == {"is_compatible": False}
    found = registry.call("POST", f"{path}?verbose=true", body).body
    assert found["is_compatible"] is False
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in found["messages"][0]
    assert registry.call("POST", f"{path}/latest?verbose=true", {"schema": TWO}).body == {
        "is_compatible": True,
        "messages": [],
    }
    assert registry.call("POST", "/compatibility/subjects/none/versions/latest", body).body == {"is_compatible": True}
    assert error(registry, "POST", f"{path}/7", body)[:2] == (404, 40402)
    assert registry.get(f"/subjects/{subject}/versions") == [1]


def test_settings_of_subjects(registry: RegistryProcess, subject: str) -> None:
    """If this fails, an operator sets a level that does not hold."""
    path = f"/config/{subject}"
    assert error(registry, "GET", path)[:2] == (404, 40408)
    assert registry.get(f"{path}?defaultToGlobal=true") == {"compatibilityLevel": "BACKWARD"}
    body = {"compatibility": "full", "normalize": True, "defaultMetadata": {"properties": {"a": "b"}}}
    assert registry.call("PUT", path, body).body == {**body, "compatibility": "FULL"}
    assert registry.get(path)["compatibilityLevel"] == "FULL"
    assert registry.call("PUT", path, {"normalize": None}).body == {
        "compatibility": "FULL",
        "defaultMetadata": {"properties": {"a": "b"}},
    }
    assert registry.call("DELETE", path).body["compatibilityLevel"] == "FULL"
    assert error(registry, "DELETE", path)[:2] == (404, 40401)
    assert error(registry, "GET", f"/mode/{subject}")[:2] == (404, 40409)
    assert registry.call("PUT", f"/mode/{subject}", {"mode": "READONLY"}).body == {"mode": "READONLY"}
    assert error(registry, "POST", f"/subjects/{subject}/versions", {"schema": INT})[:2] == (422, 42205)
    assert registry.call("DELETE", f"/mode/{subject}").body == {"mode": "READONLY"}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nothing", None, 404, 404),
        ("PATCH", "/subjects", None, 405, 405),
        ("GET", "/schemas/ids/x", None, 404, 404),
        ("GET", "/schemas/ids/999999", None, 404, 40403),
        ("GET", "/schemas/guids/none", None, 404, 40403),
        ("GET", "/subjects/a/versions/0", None, 422, 42202),
        ("GET", "/subjects/a/versions/x", None, 422, 42202),
        ("GET", "/subjects/a/versions/2147483648", None, 422, 42202),
        ("GET", "/subjects?limit=x", None, 404, 404),
        ("POST", "/subjects/a/versions", None, 422, 422),
        ("POST", "/subjects/a/versions", b"{", 400, 400),
        ("POST", "/subjects/a/versions", b"[]", 400, 400),
        ("POST", "/subjects/a/versions", {"schema": 7}, 422, 42201),
        ("POST", "/subjects/a/versions", {"schema": INT, "version": "x"}, 400, 400),
        ("POST", "/subjects/a/versions", {"schema": INT, "references": [{"name": "x"}]}, 422, 42201),
        ("POST", "/subjects/a/versions", {"schema": INT, "metadata": {"tags": 3}}, 400, 400),
        ("POST", "/subjects/a/versions", {"schema": INT, "ruleSet": {"domainRules": [{}]}}, 422, 42210),
        ("POST", "/subjects/a/versions", {}, 422, 42201),
        ("POST", "/subjects/a/versions", {"schema": INT, "schemaType": "XML"}, 422, 42201),
        ("POST", "/subjects/__GLOBAL/versions", {"schema": INT}, 422, 42208),
        ("POST", "/subjects/a%0Ab/versions", {"schema": INT}, 422, 42208),
        ("PUT", "/config", {"compatibility": "SIDEWAYS"}, 422, 42203),
        ("PUT", "/config", {"normalize": "yes"}, 400, 400),
        ("PUT", "/mode", {"mode": "OPEN"}, 422, 42204),
        ("PUT", "/mode/a", {"mode": "FORWARD"}, 422, 42204),
    ],
)
def test_bad_input_has_confluents_codes(
    registry: RegistryProcess, method: str, path: str, body: Any, status: int, code: int
) -> None:
    """If this fails, a client that is wrong gets an answer that it takes for another error."""
    found = error(registry, method, path, body)
    assert found[:2] == (status, code)
    assert found[2]


def test_types_of_content(registry: RegistryProcess, subject: str) -> None:
    """If this fails, clients that ask for a type get another one."""
    path = f"/subjects/{subject}/versions"
    assert registry.call("POST", path, {"schema": INT}, {"Content-Type": "text/plain"}).status == 415
    for accept in ("text/html", "text/*", "application/vnd.schemaregistry.v2+json", "application/json; q=0"):
        assert registry.call("GET", "/subjects", headers={"Accept": accept}).status == 406
    for accept in ("application/json", "*/*", "text/html, *; q=.2", "application/json; q=0.5, application/*"):
        assert registry.call("GET", "/subjects", headers={"Accept": accept}).status == 200


def test_large_schemas_are_checked_beside_the_others(registry: RegistryProcess, subject: str) -> None:
    """If this fails, a large schema is refused, or stops the instance while it is checked."""
    large = record_of(*(f"field_{number}:int=0" for number in range(2_000)))
    reply = registry.register(subject, large)
    assert reply.status == 200, reply
    assert registry.get(f"/schemas/ids/{reply.body['id']}")["schema"] == reply.body["schema"]
    status, code, message = error(registry, "POST", f"/subjects/{subject}/versions", {"schema": "[" * 50_000})
    assert (status, code) == (422, 42201), message
