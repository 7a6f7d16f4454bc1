"""The pages of schemas, with a running broker and a running registry."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from broker_cy.client.errors import ClientError
from broker_registry.console import views
from tests.dashboard.pages.group_kit import drive, layout_of, seeing
from tests.dashboard.support import ADMIN, OPERATOR, VIEWER, Desk
from tests.support.broker import QUICK, BrokerProcess
from tests.support.registry import RegistryProcess, running_registry
from tests.support.schema_records import BAD, OLD, TWO, framed, new_topic, produce, registered


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    found = BrokerProcess(tmp_path_factory.mktemp("schemas-broker"), QUICK)
    try:
        yield found.start()
    finally:
        found.close()


@pytest.fixture(scope="module")
def registry(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with running_registry(broker.bootstrap, tmp_path_factory.mktemp("schemas-registry")) as found:
        yield found


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def _any(state: object) -> bool:
    return True


def test_subjects_versions_and_references_are_shown(
    broker: BrokerProcess, registry: RegistryProcess, name: str
) -> None:
    """If this fails, a viewer does not find a schema, or what refers to it."""
    one, two = registered(registry, f"{name}-value", OLD, BAD)
    outer = '{"type":"record","name":"O","fields":[{"name":"r","type":"R"}]}'
    reference = {"name": "R", "subject": f"{name}-value", "version": 2}
    outer_id = registry.register(f"{name}-outer", outer, references=[reference]).body["id"]

    async def job(desk: Desk) -> None:
        rows = await desk.rows("subjects", lambda state: state["total"] >= 2, filter=name)
        assert rows[f"{name}-value"] == {
            "subject": f"{name}-value",
            "type": "AVRO",
            "versions": "2",
            "newest": "2",
            "id": str(two),
            "level": "BACKWARD",
            "mode": "READWRITE",
            "deleted": "0",
        }
        versions = await desk.rows("subject-versions", subject=f"{name}-value")
        assert [versions[each]["id"] for each in ("1", "2")] == [str(one), str(two)]
        text = await desk.state("version-text", subject=f"{name}-value", version="2")
        assert ['      "name": "y",', "PLAIN"] in text["lines"]
        references = await desk.rows("version-references", subject=f"{name}-value", version="2")
        assert [(row["kind"], row["subject"]) for row in references.values()] == [
            (f"referred to by id {outer_id}", f"{name}-outer")
        ]
        references = await desk.rows("version-references", subject=f"{name}-outer", version="1")
        assert [row["kind"] for row in references.values()] == ["refers to, as R"]
        facts = await desk.state("subject-facts", subject=f"{name}-value")
        assert ["level", "BACKWARD", "PLAIN"] in facts["facts"]
        page = layout_of(desk, "schema", subject=f"{name}-value", version="2", against="1")
        assert "version-diff" in page
        assert "version-diff" not in layout_of(desk, "schema", subject=f"{name}-value", version="2")
        assert "the number of a version is expected" in layout_of(desk, "schema", subject=name, version="x")

    drive(broker.bootstrap, job, registry=registry.url)


def test_subjects_without_level_and_mode_are_told(
    broker: BrokerProcess, registry: RegistryProcess, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a viewer takes a subject whose level was not read for one without a level."""
    monkeypatch.setattr(views, "SETTINGS_MAX", 1)
    for number in (1, 2):
        registered(registry, f"{name}-{number}-value", OLD)

    async def job(desk: Desk) -> None:
        state = await desk.state("subjects", lambda state: state["total"] >= 2)
        assert state["remark"] == "level and mode of the first 1 only"

    drive(broker.bootstrap, job, registry=registry.url)


def test_two_versions_are_compared(broker: BrokerProcess, registry: RegistryProcess, name: str) -> None:
    """If this fails, a viewer does not see which readers a version breaks."""
    registered(registry, name, OLD, BAD)

    async def job(desk: Desk) -> None:
        # In either order.
        pair = {"subject": name, "version": "2", "against": "1"}
        (row,) = (await desk.rows("version-differences", _any, **pair)).values()
        assert row["kind"] == "READER_FIELD_MISSING_DEFAULT_VALUE"
        assert row["refused"] == "refused"
        lines = (await desk.state("version-diff", _any, **pair))["lines"]
        assert ['+      "name": "y",', "GOOD"] in lines
        with pytest.raises(ClientError, match="the number of a version"):
            desk.look("version-diff", subject=name, version="0", against="1")

    drive(broker.bootstrap, job, registry=registry.url)


def test_a_schema_is_tried_registered_and_deleted(broker: BrokerProcess, registry: RegistryProcess, name: str) -> None:
    """If this fails, a user registers a schema without seeing which records it breaks."""
    new_topic(broker.bootstrap, name, 1)
    one, two = registered(registry, f"{name}-value", OLD, TWO)
    produce(broker.bootstrap, name, [framed(one, OLD, {"x": 1}), framed(two, TWO, {"x": 1, "y": 2})])
    subject = f"{name}-value"

    async def job(desk: Desk) -> None:
        form = (await desk.open("register-schema", subject=subject))["form"]
        assert [(each["name"], each["value"], each["long"]) for each in form["fields"]] == [
            ("subject", subject, False),
            ("kind", "AVRO", False),
            ("text", "", True),
            ("references", "", False),
            ("topics", "", False),
        ]
        values = {"subject": subject, "kind": "AVRO", "text": BAD}
        plan = (await desk.plan("register-schema", values))["plan"]
        assert plan["affected"].startswith("1 of 2 records could not be read")
        assert (plan["typed"], plan["destructive"]) == (subject, True)
        assert any(line.startswith(f"First record that breaks: {name}-0 offset 0") for line in plan["changes"])
        assert (await desk.execute(plan, subject))["said"].startswith(f"{subject} version 3 has id")
        assert registry.get(f"/subjects/{subject}/versions") == [1, 2, 3]
        plan = (await desk.plan("delete-versions", {"kind": "can be restored"}, rows=["3"], subject=subject))["plan"]
        await desk.execute(plan)
        assert registry.get(f"/subjects/{subject}/versions") == [1, 2]
        plan = (await desk.plan("delete-subject", {"kind": "for good"}, rows=[subject]))["plan"]
        assert plan["typed"] == subject
        await desk.execute(plan, subject)
        assert registry.call("GET", f"/subjects/{subject}/versions?deleted=true").status == 404

    drive(broker.bootstrap, job, registry=registry.url)


def test_roles_decide_who_changes_schemas(broker: BrokerProcess, registry: RegistryProcess, name: str) -> None:
    """If this fails, a viewer registers schemas, or an operator deletes them, or topics are seen by schemas."""
    registered(registry, name, OLD)

    async def job(desk: Desk) -> None:
        with pytest.raises(ClientError, match="needs the role operator"):
            await desk.open("register-schema")
        desk.identity = OPERATOR
        assert (await desk.open("register-schema"))["form"]
        with pytest.raises(ClientError, match="needs the role admin"):
            await desk.open("delete-subject", rows=[name])
        desk.identity = seeing(ADMIN, topics=("other",))
        with pytest.raises(ClientError, match="about every topic"):
            await desk.open("delete-subject", rows=[name])
        assert "your account may see only some" in layout_of(desk, "schemas")
        assert "your account may see only some" in await desk.look("subjects").failed()
        for channel in ("subject-versions", "subject-facts"):
            assert "your account may see only some" in await desk.look(channel, subject=name).failed()
        assert "your account may see only some" in await desk.look("version-text", subject=name, version="1").failed()

    drive(broker.bootstrap, job, VIEWER, registry=registry.url)


def test_without_a_registry_the_page_says_how_to_name_one(broker: BrokerProcess) -> None:
    """If this fails, an empty page looks like a registry without schemas."""

    async def job(desk: Desk) -> None:
        for page in (layout_of(desk, "schemas"), layout_of(desk, "schema", subject="x")):
            assert "No schema registry is known for this cluster" in page
        with pytest.raises(ClientError, match="No schema registry is known"):
            await desk.open("register-schema")

    drive(broker.bootstrap, job)


def test_a_registry_that_is_down_is_told(broker: BrokerProcess) -> None:
    """If this fails, the page loads for ever."""

    async def job(desk: Desk) -> None:
        assert "connection refused" in await desk.look("subjects").failed()

    drive(broker.bootstrap, job, registry="http://127.0.0.1:1")
