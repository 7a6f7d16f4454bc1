"""The permissions of clients: every route needs one, lists show only what the client may read, and no form of a name,
no error and no reference leads around that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker_cy.security.acls import (
    CLUSTER_NAME,
    Binding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from broker_registry.api.app import App, routes
from broker_registry.api.permissions import anyone, listed
from broker_registry.api.requests import Request
from broker_registry.errors import RegistryError
from broker_registry.schema_types.base import Reference
from broker_registry.security.access import Access
from broker_registry.store.keys import Key, KeyType
from broker_registry.store.state import State
from broker_registry.store.values import Config, encode_config
from tests.broker_registry.api.support import acls_of, allow, app_of, call
from tests.broker_registry.operations.support import add, record_of, wanted

ALICE, BOB = "User:alice", "User:bob"
OPEN = record_of("x:int", name="Open")
SECRET = record_of("password:string", name="Secret")
SHARED = record_of("y:int", name="Shared")
# In texts of answers, so that one of them shows where something came from.
SECRET_WORDS = (b"secret", b"Secret", b"password")


@pytest.fixture
def state() -> State:
    """Subjects of the topic `open`, which alice may read, and of `secret`, which she may not."""
    found = State()
    add(found, wanted("open-value", OPEN))
    add(found, wanted("secret-value", SECRET))
    add(found, wanted("secret-value", SHARED), is_forced=True)
    add(found, wanted("open-key", SHARED))
    add(found, wanted(":.secret-context:secret-value", SECRET))
    add(found, wanted("secret-key", record_of("z:int", name="User"), Reference("Open", "open-value", 1)))
    return found


def alice(*operations: Operation, topic: str = "open") -> Access:
    return Access(ALICE, "10.0.0.1", acls_of(*(allow(ALICE, each, topic) for each in operations)))


@pytest.fixture
def app(state: State) -> App:
    return app_of(state, alice(Operation.READ))


def cases() -> Iterator[tuple[str, str]]:
    """Return each route with names of what alice may not touch."""
    for method, pattern, _ in routes().all():
        path = pattern.replace("{subject}", "secret-value").replace("{version}", "1").replace("{id}", "2")
        yield method, path.replace("{guid}", "0" * 32).replace("{context}", ".secret-context")


@pytest.mark.parametrize(("method", "path"), list(cases()))
def test_no_route_shows_or_changes_what_the_client_may_not_read(app: App, method: str, path: str) -> None:
    """If this fails, a route has been added that does not ask for a right: everything behind it is open."""
    reply = call(app, method, path, {"schema": SECRET, "compatibility": "NONE", "mode": "READONLY"})
    if reply.status != 403:
        assert method == "GET" or path == "/", reply
        assert reply.status in (200, 404) or path == "/_health", reply
        text = reply.text.replace(b"secret-context", b"") if reply.status == 404 else reply.text
        assert not any(word in text for word in SECRET_WORDS), reply
    else:
        assert reply.body["error_code"] == 40301


def test_routes_that_ask_for_nothing_are_listed() -> None:
    """If this fails, a route was opened without anybody's look at what it tells."""
    open_routes = {(method, path) for method, path, route in routes().all() if route.permission is anyone}
    assert open_routes == {
        ("GET", "/"),
        ("POST", "/"),
        ("GET", "/schemas/types"),
        ("GET", "/v1/metadata/id"),
        ("GET", "/v1/metadata/version"),
        ("GET", "/master_available"),
        ("GET", "/_health"),
        ("GET", "/metrics"),
    }
    filtered = {(method, path) for method, path, route in routes().all() if route.permission is listed}
    assert filtered == {
        ("GET", "/contexts"),
        ("GET", "/subjects"),
        ("GET", "/schemas"),
        ("GET", "/schemas/ids/{id}"),
        ("GET", "/schemas/ids/{id}/schema"),
        ("GET", "/schemas/ids/{id}/subjects"),
        ("GET", "/schemas/ids/{id}/versions"),
        ("GET", "/schemas/guids/{guid}"),
        ("GET", "/schemas/guids/{guid}/ids"),
    }


def test_a_request_without_a_known_client_may_do_nothing() -> None:
    """If this fails, a way to a handler that forgets the client is open to all."""
    request = Request.of("GET", b"/subjects/a/versions", b"")
    assert not request.access.sees("a")
    with pytest.raises(RegistryError) as caught:
        request.access.require(Operation.DESCRIBE, "a")
    assert caught.value.code == 40101


def test_lists_show_what_the_client_may_read(app: App) -> None:
    """If this fails, lists name the subjects of others, or leave out the client's own."""
    assert call(app, "GET", "/subjects").body == ["open-key", "open-value"]
    assert call(app, "GET", "/subjects?subjectPrefix=:*:secret").body == []
    assert [each["subject"] for each in call(app, "GET", "/schemas").body] == ["open-key", "open-value"]
    assert [each["subject"] for each in call(app, "GET", "/schemas?limit=1&offset=1").body] == ["open-value"]
    assert call(app, "GET", "/contexts").body == ["."]
    assert call(app, "GET", "/contexts/.secret-context/subjects").body == []
    # Version 1 of open-value is referred to by a schema of secret-key.
    assert call(app, "GET", "/subjects/open-value/versions/1/referencedby").body == []


def test_ids_are_readable_by_one_of_their_subjects(app: App, state: State) -> None:
    """If this fails, consumers cannot read records whose schema another team has registered, too."""
    shared = state.versions("open-key")[0]
    assert state.holders(".", shared.id).keys() == {"secret-value", "open-key"}
    reply = call(app, "GET", f"/schemas/ids/{shared.id}?subject=")
    assert (reply.body["schema"], reply.body["subject"]) == (SHARED, "open-key")
    assert call(app, "GET", f"/schemas/ids/{shared.id}/subjects").body == ["open-key"]
    assert call(app, "GET", f"/schemas/ids/{shared.id}/versions").body == [{"subject": "open-key", "version": 1}]
    assert call(app, "GET", f"/schemas/guids/{shared.guid}").body["schema"] == SHARED
    assert call(app, "GET", f"/schemas/guids/{shared.guid}/ids").body == [{"context": ".", "id": shared.id}]
    # As the subject that has it first, which the client may not read.
    assert call(app, "GET", f"/schemas/ids/{shared.id}?subject=secret-value").body["subject"] == "open-key"


def test_schemas_of_others_are_refused_by_id_and_not_found_by_content(app: App, state: State) -> None:
    """If this fails, ids give schemas away, or a client finds out which schemas exist by their hashes."""
    hidden = state.versions("secret-value")[0]
    for path in ("", "/schema", "/subjects", "/versions", "?subject=open-value", "?subject=secret-value"):
        reply = call(app, "GET", f"/schemas/ids/{hidden.id}{path}")
        assert reply.error == (403, 40301), path
        assert not any(word in reply.text for word in SECRET_WORDS)
    assert call(app, "GET", "/schemas/ids/1?subject=:.secret-context:").error == (403, 40301)
    unknown = call(app, "GET", f"/schemas/guids/{'0' * 32}")
    found = call(app, "GET", f"/schemas/guids/{hidden.guid}")
    assert unknown.error == found.error == (404, 40403)
    assert call(app, "GET", f"/schemas/guids/{hidden.guid}/ids").body == []


@pytest.mark.parametrize(
    "name",
    [
        "secret-value",
        "secret%2Dvalue",
        "%73ecret-value",
        ":.:secret-value",
        ":.secret-context:secret-value",
        "%3A.secret-context%3Asecret-value",
        ":.%20:secret-value",
        "secret-com.acme.Order",
        "open-value%2F..%2Fsecret-value",
        "secret",
        ":.secret-context:",
        "",
        ":.:",
    ],
)
@pytest.mark.parametrize("prefix", ["", "/contexts/.", "/contexts/.secret-context", "/contexts/:.:"])
def test_no_form_of_a_name_leads_to_another_subject(app: App, name: str, prefix: str) -> None:
    """If this fails, a client reaches the subjects of others by another spelling of their names."""
    for method, path in (
        ("GET", "/versions"),
        ("GET", "/versions/1"),
        ("POST", "/versions"),
        ("DELETE", "/versions/1"),
    ):
        reply = call(app, method, f"{prefix}/subjects/{name}{path}", {"schema": OPEN})
        assert reply.error == (403, 40301), (method, path)
    for room in ("config", "mode"):
        assert call(app, "GET", f"{prefix}/{room}/{name}?defaultToGlobal=true").error == (403, 40301)
        assert call(app, "PUT", f"{prefix}/{room}/{name}", {"mode": "READONLY"}).error == (403, 40301)


def test_paths_that_no_route_has_do_not_reach_one(app: App) -> None:
    """If this fails, extra slashes and dots lead past the rights of a route."""
    for path in ("/subjects%2Fsecret-value/versions", "/./subjects/secret-value/versions/1", "/%2e%2e/subjects"):
        assert call(app, "GET", path).error == (404, 404)
    # A slash at either end is none of a name.
    assert call(app, "GET", "//subjects/secret-value/versions/").error == (403, 40301)


def test_an_alias_does_not_show_or_open_its_subject(state: State) -> None:
    """If this fails, a client with rights on a name reads the subject that the name is an alias of."""
    for name in ("open-old", "secret-old"):
        state.apply(Key(KeyType.CONFIG, name).encode(), encode_config(name, Config(alias="secret-value")))
    app = app_of(state, alice(Operation.ALL))
    reply = call(app, "GET", "/subjects/open-old/versions/1")
    assert reply.error == (403, 40301)
    assert b"secret" not in reply.text
    assert reply.body["message"] == "User is denied operation Describe on Subject: open-old"
    assert call(app, "GET", "/schemas?aliases=true&subjectPrefix=secret").body == []


def test_operations_are_rights_of_their_own(state: State) -> None:
    """If this fails, a reader registers, a writer deletes, or a writer cannot read what it registers."""
    changes = [
        ("POST", "/subjects/open-value/versions", Operation.WRITE),
        ("DELETE", "/subjects/open-value/versions/1", Operation.DELETE),
        ("DELETE", "/subjects/open-value", Operation.DELETE),
        ("PUT", "/config/open-value", Operation.ALTER),
        ("DELETE", "/config/open-value", Operation.ALTER),
        ("PUT", "/mode/open-value", Operation.ALTER),
    ]
    for granted in (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER):
        app = app_of(state, alice(granted))
        assert call(app, "GET", "/subjects/open-value/versions/1").status == 200
        assert call(app, "POST", "/subjects/open-value", {"schema": OPEN}).status == 200
        assert call(app, "GET", "/config/open-value?defaultToGlobal=true").status == 200
        for method, path, needed in changes:
            if needed is not granted:
                assert call(app, method, path, {"schema": OPEN}).error == (403, 40301), (granted, path)


def test_settings_of_the_registry_are_the_clusters(state: State) -> None:
    """If this fails, a client with a right on one topic changes the settings of all of them."""
    for path in ("/config", "/mode", "/config/:.secret-context:", "/mode/:.__GLOBAL:", "/contexts/.a/config"):
        app = app_of(state, alice(Operation.ALL, topic="*"))
        assert call(app, "GET", path).error == (403, 40301), path
        assert call(app, "PUT", path, {"mode": "READONLY"}).error == (403, 40301), path
        assert call(app, "DELETE", path).error == (403, 40301), path
    assert call(app, "DELETE", "/contexts/.secret-context").error == (403, 40301)
    cluster = Binding(
        ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL, ALICE, "*", Operation.DESCRIBE, Permission.ALLOW
    )
    app = app_of(state, Access(ALICE, "10.0.0.1", acls_of(cluster)))
    assert call(app, "GET", "/config").status == 200
    assert call(app, "PUT", "/config", {"compatibility": "NONE"}).error == (403, 40301)


def test_an_import_is_the_clusters(state: State) -> None:
    """If this fails, a client with rights on one topic takes the ids of all others."""
    app = app_of(state, alice(Operation.ALL))
    reply = call(app, "PUT", "/mode/open-value", {"mode": "IMPORT"})
    assert reply.body == {"error_code": 40301, "message": "User is denied operation Alter on the registry"}


@pytest.mark.parametrize(
    "path", ["/subjects/open-value", "/subjects/open-value/versions", "/compatibility/subjects/open-value/versions"]
)
def test_references_must_be_readable(state: State, path: str) -> None:
    """If this fails, messages about a schema show the schema of others that it refers to."""
    app = app_of(state, alice(Operation.ALL))
    body: dict[str, Any] = {"schema": record_of("a:Secret", name="A")}
    for subject in ("secret-value", ":.secret-context:secret-value", "secret-none"):
        body["references"] = [{"name": "Secret", "subject": subject, "version": 1}]
        reply = call(app, "POST", path, body)
        assert reply.error == (403, 40301), subject


def test_the_text_with_its_references_needs_them_all(state: State) -> None:
    """If this fails, the format `resolved` shows schemas that the client may not read."""
    acls = acls_of(allow(ALICE, Operation.READ, "secret"))
    app = app_of(state, Access(ALICE, "10.0.0.1", acls))
    path = "/subjects/secret-key/versions/1"
    assert call(app, "GET", path).status == 200
    assert call(app, "GET", f"{path}?format=resolved").error == (403, 40301)


def test_an_acl_of_a_host_counts_for_that_host(state: State) -> None:
    """If this fails, an ACL for one host opens the registry to others, or an IPv6 client has no rights."""
    acls = acls_of(
        allow(ALICE, Operation.READ, "open", host="10.0.0.2"),
        allow(BOB, Operation.READ, "open", host="0:0:0:0:0:0:0:1"),
    )
    assert call(app_of(state, Access(ALICE, "10.0.0.1", acls)), "GET", "/subjects").body == []
    assert call(app_of(state, Access(ALICE, "10.0.0.2", acls)), "GET", "/subjects").body == ["open-key", "open-value"]
    assert call(app_of(state, Access(BOB, "::1", acls)), "GET", "/subjects").body == ["open-key", "open-value"]


def test_a_denial_wins_over_all(state: State) -> None:
    """If this fails, a client that was shut out of one topic still reads its schemas."""
    denied = Binding(ResourceType.TOPIC, "open", PatternType.LITERAL, ALICE, "*", Operation.DESCRIBE, Permission.DENY)
    app = app_of(state, Access(ALICE, "10.0.0.1", acls_of(allow(ALICE, Operation.ALL, "*"), denied)))
    assert call(app, "GET", "/subjects").body == [":.secret-context:secret-value", "secret-key", "secret-value"]
    assert call(app, "GET", "/subjects/open-value/versions").error == (403, 40301)


def test_super_users_may_do_everything(state: State) -> None:
    """If this fails, an operator cannot repair the ACLs' mistakes."""
    app = app_of(state, Access(BOB, "10.0.0.1", acls_of(super_users=[BOB])))
    assert len(call(app, "GET", "/subjects").body) == 5
    assert call(app, "GET", "/contexts").body == [".", ".secret-context"]
    assert call(app, "GET", "/mode").status == 200


def test_a_body_from_a_page_of_another_origin_is_refused(app: App) -> None:
    """If this fails, a page that a user visits changes a registry that only the user's machine reaches."""
    origin = (b"origin", b"https://evil.example.com")
    reply = call(app, "POST", "/subjects/open-value", {"schema": OPEN}, [origin, (b"content-type", b"")])
    assert reply.error == (415, 415)
    assert call(app, "POST", "/subjects/open-value", {"schema": OPEN}, [(b"content-type", b"")]).status == 200
