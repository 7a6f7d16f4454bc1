"""Acts on quotas: set one, change one, remove some; and the form that asks which apply."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from broker_cy.admin import AdminClient
from broker_cy.admin.quotas import CLIENT_ID, IP, USER, Entity
from broker_cy.client.errors import ClientError
from broker_cy.console.acts.plan import Change, Command, Failed, Plan, Report
from broker_cy.console.fields import Field, Form
from broker_cy.console.quotas import (
    CONNECTION_CREATION_RATE,
    DEFAULT,
    KEYS,
    PRODUCER_BYTE_RATE,
    QuotaRow,
    parse_quota,
    shown_quota,
)
from broker_cy.core.classes import dataclass
from broker_cy.reporting.numbers import plural

_OPTIONS = {USER: "--user", CLIENT_ID: "--client-id", IP: "--ip"}
_VALUE_HINT = "bytes such as 10M, percent, or a number a second"


@dataclass(frozen=True, slots=True)
class SetQuota:
    row: QuotaRow

    async def run(self, client: AdminClient) -> Report:
        await client.quotas.alter(self.row.entity, {self.row.key: self.row.value})
        return Report(f"set {self.row}", (str(self.row),))


@dataclass(frozen=True, slots=True)
class RemoveQuotas:
    """Removes exactly these, entity by entity."""

    rows: tuple[QuotaRow, ...]

    async def run(self, client: AdminClient) -> Report:
        done: list[str] = []
        failed: list[Failed] = []
        by_entity: dict[str, list[QuotaRow]] = {}
        for row in self.rows:
            by_entity.setdefault(QuotaRow(row.entity, "", 0).id, []).append(row)
        for rows in by_entity.values():
            try:
                await client.quotas.alter(rows[0].entity, dict.fromkeys(row.key for row in rows))
            except ClientError as error:
                failed.append(Failed(rows[0].whose, error))
            else:
                done += map(str, rows)
        return Report(f"removed {plural(len(done), 'quota')}", tuple(done), tuple(failed))


def new_quota_form() -> Form:
    """The form for a new quota."""
    return Form(
        "Set a quota",
        [
            Field("user", "User", hint=f"a name, {DEFAULT} for all without a quota of their own, or empty"),
            Field("client_id", "Client id", hint=f"a name, {DEFAULT}, or empty"),
            Field("ip", "Address", hint=f"of connections, instead of both: 10.0.0.7, or {DEFAULT}"),
            Field("key", "Quota", value=PRODUCER_BYTE_RATE, choices=KEYS),
            Field("value", "Value", hint=_VALUE_HINT),
        ],
        note="Each broker counts for itself. Other quotas of the user, client id or address keep their values.",
        check=_check_new,
    )


def change_quota_form(row: QuotaRow) -> Form:
    """The form to change a quota."""

    def value(text: str) -> float:
        return parse_quota(row.key, text)

    return Form(f"Change {row}", [Field("value", "Value", value, f"{row.value:.15g}", _VALUE_HINT)])


def _check_new(values: Mapping[str, Any]) -> tuple[str, str] | None:
    names = {name: values[name].strip() for name in ("user", "client_id", "ip")}
    if not any(names.values()):
        return "user", "whose quota? enter a user, a client id, both, or an address"
    if names["ip"] and (names["user"] or names["client_id"]):
        return "ip", "a quota is of an address, or of users and client ids"
    if bool(names["ip"]) != (values["key"] == CONNECTION_CREATION_RATE):
        return "key", f"{CONNECTION_CREATION_RATE} is the quota of addresses, the others are of users and client ids"
    if names["ip"] and (problem := _address_problem(names["ip"])):
        return "ip", problem
    try:
        parse_quota(values["key"], values["value"])
    except ValueError as error:
        return "value", str(error)
    return None


def _address_problem(text: str) -> str:
    if text != DEFAULT:
        try:
            ipaddress.ip_address(text)
        except ValueError as error:
            return str(error)
    return ""


def new_row_of(values: Mapping[str, Any]) -> QuotaRow:
    """The values entered into `new_quota_form`."""
    given = {USER: values["user"], CLIENT_ID: values["client_id"], IP: values["ip"]}
    entity = {kind: None if text.strip() == DEFAULT else text.strip() for kind, text in given.items() if text.strip()}
    return QuotaRow(entity, values["key"], parse_quota(values["key"], values["value"]))


async def plan_set_quota(client: AdminClient, command: Command, row: QuotaRow) -> Plan:
    """Plan setting a quota, which the controller validates. Raises ClientError."""
    await client.quotas.alter(row.entity, {row.key: row.value}, validate_only=True)
    found = await client.quotas.describe(row.entity, strict=True)
    before = found[0].values.get(row.key) if found else None
    is_there = before == row.value
    return Plan(
        f"{'Set' if before is None else 'Change'} a quota",
        f"{row}; it counts for the next requests",
        _command(command, "set", row.entity, f"{row.key}={row.value:.15g}"),
        SetQuota(row),
        [Change(row.key, None if before is None else shown_quota(row.key, before), shown_quota(row.key, row.value))],
        verb="Set" if before is None else "Change",
        is_destructive=False,
        problem="the quota has this value already" if is_there else "",
        is_done=is_there,
    )


async def plan_remove_quotas(command: Command, rows: Sequence[QuotaRow]) -> Plan:
    """Plan removing exactly these quotas."""
    first = rows[0]
    line = _command(command, "remove", first.entity, first.key)
    more = f"  (and {len(rows) - 1} more)" if line and len(rows) > 1 else ""
    return Plan(
        "Remove quotas",
        f"removes {plural(len(rows), 'quota')}; the next one by precedence applies, or none",
        line + more,
        RemoveQuotas(tuple(rows)),
        [Change(str(row), note=shown_quota(row.key, row.value)) for row in rows],
        verb="Remove",
    )


def _command(command: Command, verb: str, entity: Entity, what: str) -> str:
    """The command line; empty for a user, client id or address that is really named `default`."""
    if DEFAULT in entity.values():
        return ""
    names = [part for kind, name in entity.items() for part in (_OPTIONS[kind], DEFAULT if name is None else name)]
    return command("quotas", verb, *names, what)


def effect_form(asked: Mapping[str, str] | None = None) -> Form:
    """The form for the quotas in effect; `asked` are texts by field."""
    texts = asked or {}
    return Form(
        "Which quotas apply",
        [
            Field("user", "User", str.strip, texts.get("user", ""), "a name; empty: without a login"),
            Field("client_id", "Client id", str.strip, texts.get("client_id", ""), "a name, or empty"),
            Field("ip", "Address", _asked_address, texts.get("ip", ""), "10.0.0.7, or empty"),
        ],
        note="The first that is set applies: user with client id, user, client id; each by name before the default.",
        verb="Show",
        check=_check_asked,
    )


def _asked_address(text: str) -> str:
    text = text.strip()
    if text and (problem := _address_problem(text)):
        raise ValueError(problem)
    return text


def _check_asked(values: Mapping[str, Any]) -> tuple[str, str] | None:
    return None if any(values.values()) else ("user", "enter a user, a client id or an address")
