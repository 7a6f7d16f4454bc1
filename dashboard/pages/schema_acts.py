"""Acts on the schema registry: register a schema after it was tried on records; delete a subject or versions.

The registry has one login for all users of the dashboard; roles decide what each may do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.plan import Plan
from broker_cy.console.fields import Form
from dashboard.acts import Act, Call, act
from dashboard.collector.cluster import Cluster
from dashboard.security.roles import Need, Role

if TYPE_CHECKING:
    from broker_registry.console.session import SchemaSession

HIDDEN = "Schemas are those of all topics; your account may see only some topics or groups."
NOT_CONFIGURED = (
    "No schema registry is known for this cluster: start broker-dash with --registry URL, or set registry for the "
    "cluster in the cluster file."
)


def schemas_of(hub: Cluster) -> SchemaSession:
    """Return the registry of a cluster. Raises ClientError."""
    if hub.schemas is None:
        raise ClientError(Failure.INVALID, NOT_CONFIGURED)
    return hub.schemas


class OnSchemas(Act):
    """Acts on schemas, which are about every topic and group: records of any may be tried."""

    def need(self, cluster: str, params: Mapping[str, str], rows: Sequence[str]) -> Need:
        return Need(self.role, cluster, every_topic=True, every_group=True)


@act("register-schema", Role.OPERATOR)
class RegisterSchema(OnSchemas):
    """Registers a schema in any subject; `subject` and `type` are suggestions."""

    async def form(self, call: Call) -> Form | None:
        from broker_registry.console.acts import register_form

        schemas_of(call.hub)
        return register_form(call.params.get("subject", ""), call.params.get("type") or "AVRO", has_files=False)

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        from broker_registry.console.acts import plan_register

        return await plan_register(schemas_of(call.hub), call.client, values)


@act("delete-subject", Role.ADMIN)
class DeleteSubject(OnSchemas):
    """Deletes `subject`, or the one that is marked."""

    async def form(self, call: Call) -> Form | None:
        from broker_registry.console.acts import delete_form

        return delete_form(f"subject {_subject(call)}")

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        from broker_registry.console.acts import plan_delete

        return await plan_delete(schemas_of(call.hub), _subject(call), None, values)


def _subject(call: Call) -> str:
    if call.params.get("subject"):
        return call.params["subject"]
    if len(call.rows) != 1:
        raise ClientError(Failure.INVALID, f"{len(call.rows)} subjects are marked: mark one")
    return call.rows[0]


@act("delete-versions", Role.ADMIN)
class DeleteVersions(OnSchemas):
    """Deletes the versions of `subject` whose numbers are in `rows`."""

    async def form(self, call: Call) -> Form | None:
        from broker_registry.console.acts import delete_form

        return delete_form(f"versions of {call.param('subject')}")

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        from broker_registry.console.acts import plan_delete

        return await plan_delete(schemas_of(call.hub), call.param("subject"), _numbers(call.rows), values)


def _numbers(rows: Sequence[str]) -> list[int]:
    if not rows or not all(each.isascii() and each.isdecimal() and len(each) <= 10 for each in rows):
        raise ClientError(Failure.INVALID, "the marked rows are no versions")
    return [int(each) for each in rows]
