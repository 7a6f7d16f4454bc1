"""Plans of registrations and deletions, with a running registry and a running broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from broker_cy.admin import AdminClient
from broker_cy.client.errors import ClientError
from broker_cy.console.acts.plan import Plan, execute
from broker_registry.client import RegistryClient
from broker_registry.client_settings import settings_of
from broker_registry.console.acts import (
    PERMANENT,
    RESTORABLE,
    delete_form,
    plan_delete,
    plan_register,
    register_form,
)
from broker_registry.console.session import SchemaSession
from tests.support.broker import BrokerProcess
from tests.support.registry import RegistryProcess
from tests.support.schema_records import BAD, OLD, TWO, commit, framed, new_topic, produce, registered

T = TypeVar("T")
Made = Callable[[SchemaSession, AdminClient], Awaitable[T]]


@pytest.fixture
def act(broker: BrokerProcess, registry: RegistryProcess) -> Callable[[Made[Any]], Any]:
    """Runs a coroutine with a session of the registry and a client of the broker."""

    def run(made: Made[T]) -> T:
        async def inside() -> T:
            async with AdminClient(broker.bootstrap) as client:
                return await made(SchemaSession(RegistryClient(settings_of(registry.url))), client)

        return asyncio.run(inside())

    return run


def values_of(subject: str, text: str, **more: str) -> dict[str, Any]:
    texts = {"subject": subject, "kind": "AVRO", "text": text, "references": "", "topics": "", **more}
    checked = register_form(has_files="file" in more).checked(texts)
    assert not checked.problems
    return dict(checked.values)


def test_a_schema_is_tried_before_it_is_registered(
    act: Callable[..., Any], broker: BrokerProcess, registry: RegistryProcess, subject: str
) -> None:
    """If this fails, a user confirms a registration without seeing what it breaks."""
    new_topic(broker.bootstrap, subject, 1)
    one, two = registered(registry, f"{subject}-value", OLD, TWO)
    produce(broker.bootstrap, subject, [framed(one, OLD, {"x": 1}), framed(two, TWO, {"x": 1, "y": 2})])
    commit(broker.bootstrap, subject, f"{subject}-group", 0)

    async def try_and_register(session: SchemaSession, client: AdminClient) -> tuple[Plan, str, str]:
        plan = await plan_register(session, client, values_of(f"{subject}-value", BAD))
        with pytest.raises(ClientError, match="nothing was changed"):
            await execute(client, plan, "another")
        report = await execute(client, plan, plan.typed)
        return plan, report.said, report.problem

    plan, said, problem = act(try_and_register)
    assert plan.affected.startswith("1 of 2 records could not be read with the new schema.")
    # It breaks records: the name must be typed.
    assert (plan.typed, plan.is_destructive, plan.problem) == (f"{subject}-value", True, "")
    changes = list(map(str, plan.changes))
    assert any(line.startswith(f"First record that breaks: {subject}-0 offset 0") for line in changes)
    assert any(line.startswith(f"group {subject}-group: 1 of 2 records ahead break") for line in changes)
    assert any(line.startswith('-      "default": 0') for line in changes)
    assert plan.command.startswith(f"broker-cy schemas register {subject}-value schema.avsc --registry http")
    assert problem == ""
    assert said.startswith(f"{subject}-value version 3 has id ")


def test_a_schema_that_the_level_refuses_is_not_registered(
    act: Callable[..., Any], registry: RegistryProcess, subject: str
) -> None:
    """If this fails, the confirmation ends in an error that was known before."""
    registered(registry, subject, OLD)
    plan = act(lambda session, client: plan_register(session, client, values_of(subject, BAD)))
    assert plan.problem.startswith(f"the level of {subject} refuses it: ")
    assert plan.affected.startswith("It could not be tried: no topic of the cluster follows")
    # Without a trial nothing is known to break.
    assert plan.typed is None
    with pytest.raises(ClientError, match="is not understood"):
        act(lambda session, client: plan_register(session, client, values_of(subject, "{}")))
    with pytest.raises(ClientError, match="no such topic"):
        act(lambda session, client: plan_register(session, client, values_of(subject, OLD, topics="absent")))


def test_a_schema_may_be_in_a_file(
    act: Callable[..., Any], registry: RegistryProcess, subject: str, tmp_path: Path
) -> None:
    """If this fails, a console on the user's machine needs the text pasted."""
    path = tmp_path / "r.avsc"
    path.write_text(OLD)
    plan = act(lambda session, client: plan_register(session, client, values_of(subject, "", file=str(path))))
    assert f"register {subject} {path}" in plan.command
    form = register_form(subject, has_files=True)
    for file, text, problem in (
        ("", "", "enter the text"),
        (str(path), OLD, "enter the text"),
        (str(tmp_path / "absent"), "", "No such file"),
        ("", OLD, ""),
    ):
        problems = form.checked({"file": file, "text": text}).problems
        assert problem in " ".join(problems.values())
        assert bool(problems) == bool(problem)
    assert "NAME=SUBJECT:VERSION" in form.checked({"text": OLD, "references": "x"}).problems["references"]
    assert "subject" in form.checked({"text": OLD, "subject": ""}).problems


def test_deletions_can_be_restored_or_need_the_name(
    act: Callable[..., Any], registry: RegistryProcess, subject: str
) -> None:
    """If this fails, one key press makes records unreadable."""
    registered(registry, subject, OLD, TWO)

    async def delete(session: SchemaSession, client: AdminClient, versions: list[int] | None, kind: str) -> Plan:
        values = delete_form("x").checked({"kind": kind}).values
        plan = await plan_delete(session, subject, versions, values)
        assert not (await execute(client, plan, plan.typed)).failed
        return plan

    path = f"/subjects/{subject}/versions"
    plan = act(lambda session, client: delete(session, client, [1], RESTORABLE))
    assert (plan.typed, plan.affected) == (None, "deletes 1 version, which can be restored")
    assert registry.get(path) == [2]
    assert registry.get(f"{path}?deleted=true") == [1, 2]
    plan = act(lambda session, client: delete(session, client, None, PERMANENT))
    assert (plan.typed, plan.affected) == (subject, "deletes 2 versions, for good")
    assert list(map(str, plan.changes)) == ["version 1: deleted already", "version 2: deleted"]
    assert registry.call("GET", f"{path}?deleted=true").status == 404


def test_a_schema_that_others_need_is_not_deleted(
    act: Callable[..., Any], registry: RegistryProcess, subject: str
) -> None:
    """If this fails, a deletion is offered that the registry refuses."""
    registered(registry, subject, OLD)
    outer = '{"type":"record","name":"O","fields":[{"name":"r","type":"R"}]}'
    registry.register(f"{subject}-outer", outer, references=[{"name": "R", "subject": subject, "version": 1}])
    plan = act(lambda session, client: plan_delete(session, subject, [1], {"kind": RESTORABLE}))
    assert plan.problem.startswith("schemas refer to version 1: ids ")
