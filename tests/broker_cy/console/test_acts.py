"""Plans of acts are data, and executing one is the same for every console."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.address import parse_addresses
from broker_cy.admin.configs import ConfigEntry, ConfigResource, ResourceType
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.client.clusters import ClusterEntry
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.configs import edit_form, plan_set, plan_unset
from broker_cy.console.acts.groups import plan_delete_offsets, plan_reset, reset_form
from broker_cy.console.acts.plan import Command, Plan, execute
from broker_cy.console.acts.records import plan_produce, produce_form
from broker_cy.console.acts.topics import (
    create_form,
    delete_records_form,
    plan_create,
    plan_delete,
    plan_delete_records,
)
from broker_cy.wire.records import Record
from tests.support.broker import BrokerProcess

NOW_MS = 1_700_000_000_000
COMMAND = Command(ClusterEntry("production", ()), is_named=True)


def run(broker: BrokerProcess, job: Callable[[AdminClient], Awaitable[None]]) -> None:
    async def inside() -> None:
        async with AdminClient(parse_addresses(broker.bootstrap)) as client:
            await job(client)

    asyncio.run(inside())


async def topics_of(client: AdminClient) -> set[str]:
    return {topic.name for topic in await client.topics.list_all()}


def test_a_plan_is_data_that_another_client_executes(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, a user who confirms later, or in another place, confirms something other than the preview; or
    planning already executes it.
    """

    async def job(client: AdminClient) -> None:
        typed = {"name": name, "partitions": "3", "settings": "retention.ms=7200000"}
        checked = create_form().checked(typed)
        assert not checked.problems
        async with AdminClient(parse_addresses(broker_cy.bootstrap)) as other:
            plan = await plan_create(other, COMMAND, checked.values)
        assert name not in await topics_of(client)
        kept: Plan = pickle.loads(pickle.dumps(plan))
        assert kept == plan
        assert kept.affected == "3 partitions, replication factor 1"
        assert [str(change) for change in kept.changes] == ["retention.ms = 7200000"]
        assert kept.command == (f"broker-cy topics create {name} -p 3 --set retention.ms=7200000 --cluster production")
        assert not kept.is_destructive
        report = await execute(client, kept)
        assert (report.said, report.done, report.failed) == (f"created topic {name} with 3 partitions", (name,), ())
        assert name in await topics_of(client)

    run(broker_cy, job)


def test_a_wrong_name_or_a_problem_changes_nothing(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, a console that forgets to compare the typed name deletes a topic."""

    async def job(client: AdminClient) -> None:
        (await client.topics.create([NewTopic(name, 1)])).whole()
        plan = await plan_delete(client, COMMAND, [name])
        assert plan.typed == name
        for typed in (None, "", name + "x"):
            with pytest.raises(ClientError, match="nothing was changed") as caught:
                await execute(client, plan, typed)
            assert caught.value.failure is Failure.INVALID
        values = delete_records_form(name, 1).checked({"before": "end"}).values
        empty = await plan_delete_records(client, COMMAND, name, values)
        with pytest.raises(ClientError, match="no records before that position"):
            await execute(client, empty, name)
        assert name in await topics_of(client)
        assert (await execute(client, plan, name)).said == "deleted 1 topic"
        assert name not in await topics_of(client)

    run(broker_cy, job)


def test_what_fails_in_part_is_reported_by_thing(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, two topics of three are deleted, and the user does not know which."""

    async def job(client: AdminClient) -> None:
        names = [f"{name}-{n}" for n in range(3)]
        (await client.topics.create([NewTopic(each, 1) for each in names])).whole()
        plan = await plan_delete(client, COMMAND, names)
        (await client.topics.delete([names[1]])).whole()
        report = await execute(client, plan, "3 topics")
        assert report.said == "deleted 2 topics"
        assert set(report.done) == {names[0], names[2]}
        (failed,) = report.failed
        assert failed.what == names[1]
        assert "UNKNOWN_TOPIC_OR_PARTITION" in str(failed.error)
        assert report.problem.endswith("(2 done, 1 failed)")
        # And one that fails as a whole reports it, instead of raising into the console.
        late = await plan_create(client, COMMAND, create_form().checked({"name": names[1]}).values)
        (await client.topics.create([NewTopic(names[1], 1)])).whole()
        report = await execute(client, late)
        assert (report.said, report.done) == ("", ())
        assert "TOPIC_ALREADY_EXISTS" in report.problem

    run(broker_cy, job)


def test_a_reset_is_previewed_and_applied(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, offsets are reset to other values than the preview shows."""

    async def job(client: AdminClient) -> None:
        (await client.topics.create([NewTopic(name, 2)])).whole()
        for partition in range(2):
            await client.records.producer().send(name, [Record(value=b"x")] * 10, partition=partition)
        keys = [TopicPartition(name, n) for n in range(2)]
        await client.group_offsets.alter(name, {keys[0]: 4, keys[1]: 10})
        form = reset_form(name, [name])
        assert form.checked({"rule": "offset", "value": ""}).problems == {"value": "an offset is expected"}
        checked = form.checked({"rule": "offset", "value": "12"})
        plan = await plan_reset(client, COMMAND, name, checked.values, NOW_MS)
        assert [str(change) for change in plan.changes] == [f"{name}-0: 4 -> 10 (+6; limited to the log, 0 to 10)"]
        assert plan.affected == "changes 1 partition of 2: 0 offsets will be read again, 6 will be skipped"
        assert (await execute(client, plan)).said == f"reset the offsets of 1 partition of {name}"
        assert (await plan_reset(client, COMMAND, name, checked.values, NOW_MS)).problem
        plan = await plan_delete_offsets(client, COMMAND, name, keys[:1])
        assert (await execute(client, plan, name)).done == (f"{name}-0",)
        assert set((await client.group_offsets.fetch([name])).whole()[name]) == {keys[1]}

    run(broker_cy, job)


def test_settings_and_records(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, the web dashboard needs a separate implementation."""

    async def job(client: AdminClient) -> None:
        (await client.topics.create([NewTopic(name, 1)])).whole()
        resource = ConfigResource(ResourceType.TOPIC, name)

        async def entry() -> ConfigEntry:
            (found,) = (await client.configs.describe([resource], names=["retention.ms"])).whole()[resource]
            return found

        plan = await plan_set(client, COMMAND, resource, await entry(), "7200000")
        assert [str(change) for change in plan.changes] == ["retention.ms: 604800000 -> 7200000"]
        assert (await execute(client, plan)).said == f"set retention.ms of topic {name} to 7200000"
        secret = replace(await entry(), is_sensitive=True)
        plan = await plan_set(client, COMMAND, resource, secret, "4711")
        assert "4711" not in f"{plan.command} {plan.changes}"
        assert "--set-file=retention.ms=FILE" in plan.command
        assert edit_form(resource, secret).fields[0].is_secret
        assert (await execute(client, plan)).said == f"set retention.ms of topic {name} to (secret)"
        plan = await plan_unset(client, COMMAND, resource, await entry())
        report = await execute(client, plan)
        assert report.said == f"removed retention.ms from topic {name}; its default applies"
        checked = produce_form(name, 1).checked({"value": r"a\x00b", "value_kind": "escaped", "headers": "trace=1"})
        produced = await plan_produce(client, COMMAND, name, checked.values)
        assert produced.affected == "1 record, 3 B"
        report = await execute(client, produced)
        assert report.said == f"produced 1 record to {name}: partition 0 at offset 0"

    run(broker_cy, job)


def test_a_form_reports_every_problem_by_field() -> None:
    """If this fails, a rejected form does not show the user which field is wrong."""
    checked = create_form().checked({"name": "a b", "partitions": "0", "settings": "x"})
    assert set(checked.problems) == {"name", "partitions", "settings"}
    assert "NAME=VALUE is expected" in checked.problems["settings"]
    assert create_form("orders").checked({}).values["name"] == "orders"
    assert produce_form("t", 1).checked({"key": "k"}).problems.keys() == {"key_kind"}
