"""Acts: the changes that can be made from the dashboard, through the plans of the console core.

An act is opened, then filled in (if it has a form), planned, shown, and executed:

POST /act/open     {"cluster", "act", "params", "rows"}             the form, or the plan if there is no form POST
/act/plan     {"cluster", "act", "params", "rows", "values"}   the plan, or the errors of the values by field POST
/act/execute  {"plan", "typed"}                                the report

`params` are texts about the subject, `rows` the ids of marked rows. A plan is kept here under a random id until it is
executed, for at most PLAN_KEPT_S, and only its user can execute it, once. `security.roles.decide` decides every
request; the audit log has every execution and every denied request. A plan that moves replicas is only started: the
answer does not wait for its end, which gets its own entry in the audit log (collector/move_runs.py).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from broker_cy.admin import AdminClient
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.pace import LongAct
from broker_cy.console.acts.plan import CHANGES_MAX, Command, Plan, Report, execute
from broker_cy.console.fields import Form
from broker_cy.reporting.foreign_text import clean
from dashboard.collector.move_runs import Run
from dashboard.security.roles import Identity, Need, Role

if TYPE_CHECKING:
    from dashboard.collector.hub import ClusterHub
    from dashboard.context import Context

PLAN_KEPT_S = 600.0
# A plan may hold records of several MiB.
PLANS_MAX = 200
PLANS_OF_USER_MAX = 5
# Clients of users. A client is closed if no act uses it now or has used it for a while.
CLIENTS_MAX = 200
CLIENT_IDLE_S = 300.0
ROWS_MAX = 5_000
# Failures of a report that are shown individually.
FAILURES_SHOWN = 20
# Kinds of values that name a file on the machine of the dashboard.
_LOCAL_CHOICES = frozenset({"file"})

_NO_PLAN = "this plan was executed already, or is too old: plan the act again"

_ACTS: dict[str, type[Act]] = {}
_A = TypeVar("_A", bound="type[Act]")


def act(name: str, role: Role) -> Callable[[_A], _A]:
    """Register a class of acts. Raises ValueError if the name is taken."""

    def register(cls: _A) -> _A:
        if name in _ACTS:
            raise ValueError(f"act {name} is registered twice")
        cls.name, cls.role = name, role
        _ACTS[name] = cls
        return cls

    return register


def registered() -> Mapping[str, type[Act]]:
    return _ACTS


@dataclass(frozen=True, slots=True)
class Call:
    """A user's request for an act."""

    hub: ClusterHub
    identity: Identity
    client: AdminClient
    command: Command
    params: Mapping[str, str]
    rows: tuple[str, ...]

    def param(self, name: str) -> str:
        """Return a parameter. Raises ClientError if it is missing."""
        value = self.params.get(name, "")
        if not value:
            raise ClientError(Failure.INVALID, f"parameter {name!r} is missing")
        return value


class Act:
    """Base of acts."""

    name: ClassVar[str] = ""
    role: ClassVar[Role] = Role.ADMIN
    # The command line contains records, which do not belong in a log.
    HAS_SECRETS: ClassVar[bool] = False

    def need(self, cluster: str, params: Mapping[str, str], rows: Sequence[str]) -> Need:
        """Return the access that the user needs. Parameters `topic` and `group` name one subject; acts on marked rows
        name their subjects here.
        """
        return Need.about(self.role, cluster, params)

    def values_need(self, cluster: str, params: Mapping[str, str], values: Mapping[str, Any]) -> Need | None:
        """Return the access that the user needs because of the typed values, such as the name of another topic."""
        return None

    async def form(self, call: Call) -> Form | None:
        """Return the form; None if the act needs no form."""
        return None

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        """Plan the act. Raises ClientError."""
        raise NotImplementedError


@dataclass(slots=True)
class _Kept:
    user: str
    hub: ClusterHub
    act: str
    plan: Plan
    # They are decided again when the plan is executed, because the user's role may have changed.
    needs: tuple[Need, ...]
    until_s: float


@dataclass(slots=True)
class _Client:
    client: AdminClient
    used_s: float
    # Acts that use it now, to plan or to execute. A client in use is not closed.
    uses: int = 0


class Acts:
    """The acts of one dashboard."""

    def __init__(self, context: Context, clock: Callable[[], float] = time.monotonic) -> None:
        self._context = context
        self._clock = clock
        self._plans: OrderedDict[str, _Kept] = OrderedDict()
        self._clients: OrderedDict[tuple[str, str], _Client] = OrderedDict()

    async def close(self) -> None:
        """Stop the moves that were started here, because they use these clients; then close the clients."""
        await asyncio.gather(*(hub.moves.close() for hub in self._context.hubs.values()))
        await asyncio.gather(*(each.client.close() for each in self._clients.values()))
        self._clients.clear()

    async def open(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the form of an act, or its plan. Raises ClientError."""
        async with self._call(request) as (wanted, call):
            form = await wanted.form(call)
            if form is None:
                return {"plan": self._keep(wanted, call, await wanted.plan(call, {}), None)}
            return {"form": _form(form)}

    async def plan(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the plan of an act, or the problems of the values by field. Raises ClientError."""
        async with self._call(request) as (wanted, call):
            return await self._planned(wanted, call, request)

    async def _planned(self, wanted: Act, call: Call, request: Mapping[str, Any]) -> dict[str, Any]:
        texts = request.get("values", {})
        if not isinstance(texts, dict) or not all(isinstance(each, str) for each in texts.values()):
            raise ClientError(Failure.INVALID, "values: an object of texts is expected")
        form = await wanted.form(call)
        values: Mapping[str, Any] = {}
        if form is not None:
            known = {field.name: field for field in form.fields}
            for name, text in texts.items():
                if name in known and known[name].choices and text in _LOCAL_CHOICES:
                    raise ClientError(Failure.INVALID, f"{name}: files of the dashboard's machine cannot be read")
            # The browser adds its time zone (assets/zone.js).
            checked = form.checked(texts, needs_zones=True)
            if checked.problems:
                return {"problems": dict(checked.problems)}
            values = checked.values
        need = wanted.values_need(call.hub.name, call.params, values)
        if need is not None:
            self._decide(call.identity, need, wanted.name)
        return {"plan": self._keep(wanted, call, await wanted.plan(call, values), need)}

    async def execute(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Execute a plan that was shown, and return its report. Raises ClientError."""
        identity = self._context.identity()
        place = str(request.get("plan"))
        kept = self._plans.get(place)
        if kept is None or kept.user != identity.name or kept.until_s < self._clock():
            raise ClientError(Failure.INVALID, _NO_PLAN)
        typed = request.get("typed")
        if kept.plan.typed is not None and typed != kept.plan.typed:
            raise ClientError(Failure.INVALID, f"{str(typed or '')!r} is not {kept.plan.typed!r}: nothing was changed")
        hub = kept.hub
        for need in kept.needs:
            self._decide(identity, need, kept.act)
        self._check_writable(hub)
        # The client that planned it may be closed by now.
        async with self._client(hub, identity) as client:
            # Another request may have executed it while other clients were being closed.
            if self._plans.pop(place, None) is None:
                raise ClientError(Failure.INVALID, _NO_PLAN)
            if isinstance(kept.plan.act, LongAct):
                report = self._start(identity, kept, kept.plan.act)
            else:
                report = await execute(client, kept.plan, typed)
        self._note(identity, kept, report.problem or report.said)
        hub.session.refresh()
        if hub.schemas is not None:
            hub.schemas.refresh()
        return {
            "said": clean(report.said),
            "problem": clean(report.problem),
            "done": len(report.done),
            "failed": [f"{clean(each.what)}: {clean(str(each.error))}" for each in report.failed[:FAILURES_SHOWN]],
            # The secret is only in this answer, which browsers do not store. It is not in the audit log or in a frame.
            "revealed": None
            if report.revealed is None
            else {"what": clean(report.revealed.what), "value": report.revealed.value},
        }

    def _start(self, identity: Identity, kept: _Kept, moves: LongAct) -> Report:
        """Start moves, with the user's own client until they end. Raises ClientError."""
        if kept.plan.problem:
            raise ClientError(Failure.INVALID, kept.plan.problem)
        hub = kept.hub
        client = self._client(hub, identity)
        hub.moves.start(
            Run(kept.plan.title, identity.name, moves, client, lambda result: self._note(identity, kept, result))
        )
        return Report(f"started: {kept.plan.affected}. The page Reassignments shows the progress")

    def _note(self, identity: Identity, kept: _Kept, result: str) -> None:
        self._context.security.audit.note(
            user=identity.name,
            address=identity.address,
            cluster=kept.hub.name,
            act=kept.act,
            subject=kept.plan.title,
            command="" if _ACTS[kept.act].HAS_SECRETS else kept.plan.command,
            result=result,
        )

    @asynccontextmanager
    async def _call(self, request: Mapping[str, Any]) -> AsyncIterator[tuple[Act, Call]]:
        """Check a request, and keep its client open meanwhile. Raises ClientError."""
        name, cluster = request.get("act"), request.get("cluster")
        params, rows = request.get("params", {}), request.get("rows", [])
        if not isinstance(name, str) or name not in _ACTS:
            raise ClientError(Failure.INVALID, f"there is no act {str(name)[:60]!r}")
        if not isinstance(cluster, str):
            raise ClientError(Failure.INVALID, "the cluster is missing")
        if not isinstance(params, dict) or not all(isinstance(each, str) for each in params.values()):
            raise ClientError(Failure.INVALID, "params: an object of texts is expected")
        if not isinstance(rows, list) or not all(isinstance(each, str) for each in rows):
            raise ClientError(Failure.INVALID, "rows: a list of texts is expected")
        if len(rows) > ROWS_MAX:
            raise ClientError(
                Failure.INVALID, f"{len(rows):,} rows are marked; at most {ROWS_MAX:,} can be changed at once"
            )
        wanted = _ACTS[name]()
        identity = self._context.identity()
        hub = self._context.hub(cluster)
        self._decide(identity, wanted.need(cluster, params, rows), name)
        self._check_writable(hub)
        async with self._client(hub, identity) as client:
            yield wanted, Call(hub, identity, client, hub.command, params, tuple(rows))

    def _decide(self, identity: Identity, need: Need, name: str) -> None:
        """Raise ClientError if the user may not do it. The audit log gets an entry for the denial."""
        reason = self._context.security.check(identity, need, act=name)
        if reason:
            raise ClientError(Failure.REFUSED, reason)

    def _check_writable(self, hub: ClusterHub) -> None:
        if self._context.is_readonly or hub.is_readonly:
            raise ClientError(Failure.REFUSED, "read-only mode: changes are refused")

    @asynccontextmanager
    async def _client(self, hub: ClusterHub, identity: Identity) -> AsyncIterator[AdminClient]:
        """Yield the user's own client; it is not closed meanwhile. Brokers and events name the user by its client id.

        Raises ClientError if acts use CLIENTS_MAX other clients.
        """
        key = (hub.name, identity.name)
        unused = self._removed_clients(key)
        known = self._clients.get(key)
        if known is None:
            client = AdminClient(
                hub.entry.bootstrap,
                timeout_s=hub.entry.timeout_s,
                client_id=f"dashboard/{identity.name}",
                login=hub.entry.login,
                tls=hub.entry.tls,
            )
            known = self._clients[key] = _Client(client, self._clock())
        known.uses += 1
        self._clients.move_to_end(key)
        try:
            # The unused clients are no longer in the table, and the user's own one counts as used: other acts may run
            # while these are closed.
            await asyncio.gather(*(each.close() for each in unused), return_exceptions=True)
            yield known.client
        finally:
            known.uses -= 1
            known.used_s = self._clock()

    def _removed_clients(self, wanted: tuple[str, str]) -> list[AdminClient]:
        """Remove and return the clients that are idle or must make room for `wanted`. Raises ClientError."""
        now_s = self._clock()
        idle = [key for key, each in self._clients.items() if each.uses == 0 and now_s - each.used_s > CLIENT_IDLE_S]
        removed = [self._clients.pop(key).client for key in idle]
        while wanted not in self._clients and len(self._clients) >= CLIENTS_MAX:
            # The first one was used least recently.
            unused = next((key for key, each in self._clients.items() if each.uses == 0), None)
            if unused is None:
                raise ClientError(
                    Failure.REFUSED, f"{CLIENTS_MAX} users are changing something, which is the limit: try again later"
                )
            removed.append(self._clients.pop(unused).client)
        return removed

    def _keep(self, wanted: Act, call: Call, plan: Plan, of_values: Need | None) -> dict[str, Any]:
        now_s = self._clock()
        user = call.identity.name
        for key in [key for key, kept in self._plans.items() if kept.until_s < now_s]:
            del self._plans[key]
        theirs = [key for key, kept in self._plans.items() if kept.user == user]
        for key in theirs[: max(0, len(theirs) - PLANS_OF_USER_MAX + 1)]:
            del self._plans[key]
        while len(self._plans) >= PLANS_MAX:
            self._plans.popitem(last=False)
        place = secrets.token_urlsafe(16)
        needs = (wanted.need(call.hub.name, call.params, call.rows), *([] if of_values is None else [of_values]))
        self._plans[place] = _Kept(user, call.hub, wanted.name, plan, needs, now_s + PLAN_KEPT_S)
        changes = [clean(str(change)) for change in plan.changes[:CHANGES_MAX]]
        return {
            "id": place,
            "title": clean(plan.title),
            "affected": clean(plan.affected),
            "changes": changes,
            "more": max(0, len(plan.changes) - CHANGES_MAX),
            "command": clean(plan.command),
            "typed": plan.typed,
            "verb": plan.verb,
            "destructive": plan.is_destructive,
            "problem": clean(plan.problem),
        }


def _form(form: Form) -> dict[str, Any]:
    return {
        "title": clean(form.title),
        "note": clean(form.note),
        "verb": form.verb,
        "fields": [
            {
                "name": field.name,
                "label": field.label,
                "value": field.value,
                "hint": field.hint,
                "choices": [choice for choice in field.choices if choice not in _LOCAL_CHOICES],
                "secret": field.is_secret,
                "long": field.is_long,
                "time": field.is_time,
                "timeIf": field.time_if,
            }
            for field in form.fields
        ],
    }
