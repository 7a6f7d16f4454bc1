"""Acts on ACLs: create one, delete some; and the form that explains a decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker_cy.admin import AdminClient
from broker_cy.admin.acls import exactly
from broker_cy.console.acts.plan import Change, Command, Plan, Report
from broker_cy.console.fields import Field, Form
from broker_cy.core.classes import dataclass
from broker_cy.reporting.numbers import plural
from broker_cy.security.acl_words import (
    RESOURCE_HELP,
    check_operation,
    parse_host,
    parse_operation,
    parse_permission,
    parse_principal,
    parse_resource,
    resource_text,
    shown,
    word_of,
)
from broker_cy.security.acls import WILDCARD, Binding, Operation, PatternType, ResourceType
from broker_cy.security.explain import Asked, Verdict

_NAMED, _PREFIXED = "exactly this name", "all that begin with it"


@dataclass(frozen=True, slots=True)
class CreateAcl:
    binding: Binding

    async def run(self, client: AdminClient) -> Report:
        (await client.acls.create([self.binding])).whole()
        return Report(f"created {shown(self.binding)}", (shown(self.binding),))


@dataclass(frozen=True, slots=True)
class DeleteAcls:
    """Deletes exactly these."""

    bindings: tuple[Binding, ...]

    async def run(self, client: AdminClient) -> Report:
        outcome = await client.acls.delete(exactly(each) for each in self.bindings)
        done = [shown(each) for deleted in outcome.found.values() for each in deleted]
        report = Report.of(f"deleted {plural(len(done), 'ACL')}", outcome)
        return Report(report.said, tuple(done), report.failed)


def new_acl_form(like: Binding | None = None) -> Form:
    """The form for a new ACL; `like` is the selected one."""
    is_prefixed = like is not None and like.pattern_type is PatternType.PREFIXED
    return Form(
        "Create an ACL",
        [
            Field("permission", "Permission", parse_permission, "allow", choices=("allow", "deny")),
            Field("principal", "Principal", parse_principal, like.principal if like else "", "User:alice, or User:*"),
            Field("operation", "Operation", parse_operation, hint="read, write, describe … or all"),
            Field(
                "resource",
                "Resource",
                parse_resource,
                resource_text(like.resource_type, like.name) if like else "",
                RESOURCE_HELP,
            ),
            Field("pattern", "Name", str, _PREFIXED if is_prefixed else _NAMED, choices=(_NAMED, _PREFIXED)),
            Field("host", "Host", parse_host, like.host if like else WILDCARD, "an IP address, or * for all"),
        ],
        note="Any ACL that denies wins over those that allow.",
        check=_check_new,
    )


def _check_new(values: Mapping[str, Any]) -> tuple[str, str] | None:
    kind, name = values["resource"]
    try:
        check_operation(values["operation"], kind)
    except ValueError as error:
        return "operation", str(error)
    if values["pattern"] == _PREFIXED and (kind is ResourceType.CLUSTER or name == WILDCARD):
        return "pattern", "the cluster has one name" if kind is ResourceType.CLUSTER else f"{name} is no prefix"
    return None


async def plan_create_acl(client: AdminClient, command: Command, values: Mapping[str, Any]) -> Plan:
    """Plan the values entered into `new_acl_form`. Raises ClientError."""
    kind, name = values["resource"]
    is_prefixed = values["pattern"] == _PREFIXED
    binding = Binding(
        kind,
        name,
        PatternType.PREFIXED if is_prefixed else PatternType.LITERAL,
        values["principal"],
        values["host"],
        values["operation"],
        values["permission"],
    )
    is_there = binding in await client.acls.describe(exactly(binding))
    return Plan(
        "Create an ACL",
        shown(binding),
        command(
            "acls",
            "create",
            word_of(binding.permission),
            binding.principal,
            word_of(binding.operation),
            resource_text(kind, name),
            *(["--prefixed"] if is_prefixed else []),
            *(["--host", binding.host] if binding.host != WILDCARD else []),
        ),
        CreateAcl(binding),
        verb="Create",
        is_destructive=False,
        problem="this ACL exists already" if is_there else "",
        is_done=is_there,
    )


async def plan_delete_acls(command: Command, bindings: Sequence[Binding]) -> Plan:
    """Plan deleting exactly these ACLs."""
    first = bindings[0]
    return Plan(
        "Delete ACLs",
        f"deletes {plural(len(bindings), 'ACL')}; clients that only these ACLs allow lose access immediately",
        command(
            "acls",
            "delete",
            "--principal",
            first.principal,
            "--resource",
            resource_text(first.resource_type, first.name),
            "--pattern",
            word_of(first.pattern_type),
            "--host",
            first.host,
            "--operation",
            word_of(first.operation),
            "--permission",
            word_of(first.permission),
        )
        + (f"  (and {len(bindings) - 1} more)" if len(bindings) > 1 else ""),
        DeleteAcls(tuple(bindings)),
        [Change(shown(each)) for each in bindings],
        verb="Delete",
    )


def explain_form(asked: Mapping[str, str] | None = None) -> Form:
    """The form to explain a decision; `asked` are texts by field."""
    texts = asked or {}
    return Form(
        "Explain a decision",
        [
            Field("principal", "Principal", parse_principal, texts.get("principal", ""), "User:alice"),
            Field("operation", "Operation", _one_operation, texts.get("operation", ""), "read, write, describe …"),
            Field("resource", "Resource", parse_resource, texts.get("resource", ""), "topic:orders, or cluster"),
            Field("host", "Host", parse_host, texts.get("host", WILDCARD), "an IP address, or * for any"),
        ],
        note="Decided here, from the current ACLs. Brokers do not list super users, who may do everything.",
        verb="Explain",
        check=_check_asked,
    )


def _one_operation(text: str) -> Operation:
    found = parse_operation(text)
    if found is Operation.ALL:
        raise ValueError("all is no single operation: brokers ask for one after the other")
    return found


def _check_asked(values: Mapping[str, Any]) -> tuple[str, str] | None:
    try:
        check_operation(values["operation"], values["resource"][0])
    except ValueError as error:
        return "operation", str(error)
    return None


def asked_of(values: Mapping[str, Any]) -> Asked:
    """The values entered into `explain_form`."""
    kind, name = values["resource"]
    return Asked(values["principal"], values["host"], values["operation"], kind, name)


def verdict_lines(asked: Asked, verdict: Verdict) -> list[str]:
    """The answer to `explain_form`, in lines: the decision, its reason, and the ACLs that come near."""
    found = verdict.explanation
    where = "" if asked.host == WILDCARD else f" from {asked.host}"
    answer = "ALLOWED" if found.allowed else "DENIED"
    what = f"{asked.principal}{where} {word_of(asked.operation)} {resource_text(asked.resource_type, asked.name)}"
    lines = [f"{answer}: {what}", f"because: {shown(found.binding) if found.binding else found.reason.value}"]
    lines += [f"nearest: {shown(each.binding)} ({'; '.join(each.differs)})" for each in verdict.nearest]
    return lines
