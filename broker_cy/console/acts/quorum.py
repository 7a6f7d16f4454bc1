"""Acts on the metadata quorum: let the log keep its voters, add voters, remove voters (KIP-853)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from broker_cy.admin import AdminClient
from broker_cy.admin.quorum import QuorumDescription, QuorumEndpoint, QuorumReplica
from broker_cy.client.address import parse_address
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.plan import Change, Command, Plan, Report
from broker_cy.console.fields import Field, Form
from broker_cy.console.values import integer, optional
from broker_cy.core.classes import dataclass
from broker_cy.core.uuid import from_text, is_reserved
from broker_cy.reporting.numbers import count, plural

# The kraft.version from which on the voters are in the log.
_DYNAMIC = 1
_NODE_MAX = (1 << 31) - 1
# Listeners of one node that a form takes.
_ENDPOINTS_MAX = 16


@dataclass(frozen=True, slots=True)
class AddVoter:
    voter_id: int
    directory_id: UUID
    endpoints: tuple[QuorumEndpoint, ...]

    async def run(self, client: AdminClient) -> Report:
        await client.quorum.add_voter(self.voter_id, self.directory_id, self.endpoints)
        return Report(f"node {self.voter_id} is a voter now", (str(self.voter_id),))


@dataclass(frozen=True, slots=True)
class RemoveVoter:
    voter_id: int
    directory_id: UUID

    async def run(self, client: AdminClient) -> Report:
        await client.quorum.remove_voter(self.voter_id, self.directory_id)
        return Report(f"node {self.voter_id} is no longer a voter", (str(self.voter_id),))


@dataclass(frozen=True, slots=True)
class KeepVoters:
    async def run(self, client: AdminClient) -> Report:
        await client.quorum.upgrade(_DYNAMIC)
        return Report(f"kraft.version is {_DYNAMIC} now: voters can be added and removed", ("kraft.version",))


def add_voter_form(node: int | None = None) -> Form:
    """The form to add a voter; `node` is the selected observer."""
    return Form(
        "Add a voter",
        [
            Field("node", "Node", integer(0, _NODE_MAX), "" if node is None else str(node), "id of an observer"),
            Field("endpoints", "Endpoints", _endpoints, hint="CONTROLLER://10.0.0.4:9093, .."),
            Field("directory", "Directory id", optional(str.strip), hint="the one that the node reported last"),
        ],
        note="The node has to follow the quorum already. Endpoints are its controller listeners, at which the other "
        "voters reach it.",
    )


async def plan_add_voter_of(client: AdminClient, command: Command, values: Mapping[str, Any]) -> Plan:
    """Plan the values entered into `add_voter_form`. Raises ClientError as `plan_add_voter`."""
    return await plan_add_voter(client, command, values["node"], values["endpoints"], values["directory"])


def remove_voter_form(node: int | None = None) -> Form:
    """The form to remove a voter; `node` is the selected one."""
    return Form(
        "Remove a voter",
        [
            Field("node", "Node", integer(0, _NODE_MAX), "" if node is None else str(node), "id of a voter"),
            Field("directory", "Directory id", optional(str.strip), hint="only if the node has several"),
        ],
        note="The node follows the quorum as an observer afterwards.",
    )


async def plan_remove_voter_of(client: AdminClient, command: Command, values: Mapping[str, Any]) -> Plan:
    """Plan the values entered into `remove_voter_form`. Raises ClientError as `plan_remove_voter`."""
    return await plan_remove_voter(client, command, values["node"], values["directory"])


async def plan_upgrade(client: AdminClient, command: Command) -> Plan:
    """Plan keeping the voters in the log instead of in the configuration files. Raises ClientError."""
    described = await client.quorum.describe()
    is_static = bool(_static_problem(described))
    ids = ", ".join(str(each.replica_id) for each in described.voters)
    return Plan(
        "Upgrade kraft.version",
        f"the metadata log keeps the voters ({ids}) instead of controller.quorum.voters; there is no way back",
        command("quorum", "upgrade", "--yes"),
        KeepVoters(),
        [Change("kraft.version", "0" if is_static else str(_DYNAMIC), str(_DYNAMIC))],
        verb="Upgrade",
        is_destructive=False,
        problem="" if is_static else "the voters are in the log already",
    )


async def plan_add_voter(
    client: AdminClient,
    command: Command,
    voter_id: int,
    endpoints: Sequence[QuorumEndpoint],
    directory_id: str | None = None,
) -> Plan:
    """Plan making an observer a voter. Its directory id, if it is not given, is the one that it reported last: the
    leader shows an observer for minutes after it was formatted again. Raises ClientError if the node does not follow
    the quorum.
    """
    described = await client.quorum.describe()
    observers = described.observers if directory_id else _newest(described.observers)
    found = _chosen(observers, voter_id, directory_id)
    problem = _static_problem(described)
    if any(each.replica_id == voter_id for each in described.voters):
        problem = f"node {voter_id} is a voter already"
    elif found is None:
        reported = [each.directory_id for each in described.observers if each.replica_id == voter_id]
        if reported:
            raise ClientError(
                Failure.INVALID,
                f"it follows the quorum with another directory ({', '.join(reported)}), not with {directory_id}",
                what=f"node {voter_id}",
            )
        known = ", ".join(str(each.replica_id) for each in described.observers) or "none"
        raise ClientError(
            Failure.INVALID,
            f"it does not follow the quorum (observers: {known}): start it first, with this cluster's id",
            what=f"node {voter_id}",
        )
    before = len(described.voters)
    directory = directory_id or (found.directory_id if found is not None else "")
    return Plan(
        f"Add voter {voter_id}",
        f"{before} -> {plural(before + 1, 'voter')}: {_majority(before + 1)} of them have to be alive",
        command("quorum", "add", voter_id, "--directory", directory, *_options(endpoints), "--yes"),
        AddVoter(voter_id, UUID(int=0) if problem else _directory(directory), tuple(endpoints)),
        [Change(f"node {voter_id}", "observer", "voter", "" if found is None else f"lag {count(found.lag)} records")],
        verb="Add",
        is_destructive=False,
        problem=problem,
    )


async def plan_remove_voter(
    client: AdminClient, command: Command, voter_id: int, directory_id: str | None = None
) -> Plan:
    """Plan making a voter an observer. Raises ClientError if it is none."""
    described = await client.quorum.describe()
    found = _chosen(described.voters, voter_id, directory_id)
    if found is None:
        known = ", ".join(str(each.replica_id) for each in described.voters) or "none"
        raise ClientError(Failure.INVALID, f"it is not a voter; the voters are {known}", what=f"node {voter_id}")
    before = len(described.voters)
    directory = directory_id or found.directory_id
    is_leader = voter_id == described.leader_id
    return Plan(
        f"Remove voter {voter_id}",
        f"{before} -> {plural(before - 1, 'voter')}: {_majority(before - 1)} of them have to be alive",
        command("quorum", "remove", voter_id, "--directory", directory, "--yes"),
        RemoveVoter(voter_id, from_text(directory)),
        [Change(f"node {voter_id}", "leader" if is_leader else "voter", "observer")],
        typed=str(voter_id),
        verb="Remove",
        problem="the quorum needs one voter" if before == 1 else _static_problem(described),
    )


def parse_endpoint(text: str) -> QuorumEndpoint:
    """Parse `CONTROLLER://host:9093`. Raises ValueError, which says what is allowed."""
    name, separator, rest = text.partition("://")
    if not separator or not name:
        raise ValueError(f"{text!r}: LISTENER://HOST:PORT is expected, such as CONTROLLER://10.0.0.4:9093")
    try:
        return QuorumEndpoint(name, *parse_address(rest, needs_port=True))
    except ValueError as error:
        raise ValueError(
            f"{text!r}: LISTENER://HOST:PORT is expected, such as CONTROLLER://10.0.0.4:9093: {error}"
        ) from None


def _endpoints(text: str) -> tuple[QuorumEndpoint, ...]:
    """Endpoints that are separated by commas. Raises ValueError, which says what is allowed."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not 1 <= len(parts) <= _ENDPOINTS_MAX:
        raise ValueError(f"{len(parts)} endpoints: 1 to {_ENDPOINTS_MAX} are expected, as CONTROLLER://10.0.0.4:9093")
    return tuple(map(parse_endpoint, parts))


def _static_problem(described: QuorumDescription) -> str:
    """Why voters cannot be changed; empty if they can. Voters of a file have no directory id."""
    if any(is_reserved(from_text(each.directory_id)) for each in described.voters):
        return (
            "the voters are those of controller.quorum.voters in the configuration files (kraft.version 0); "
            "`broker-cy quorum upgrade` keeps them in the log"
        )
    return ""


def _chosen(among: Sequence[QuorumReplica], node_id: int, directory_id: str | None) -> QuorumReplica | None:
    """The replica with this id and directory. Raises ClientError if several directories have the id."""
    found = [each for each in among if each.replica_id == node_id and directory_id in (None, each.directory_id)]
    if len(found) > 1:
        names = ", ".join(each.directory_id for each in found)
        raise ClientError(Failure.INVALID, f"it has several directories, choose one: {names}", what=f"node {node_id}")
    return found[0] if found else None


def _newest(among: Sequence[QuorumReplica]) -> list[QuorumReplica]:
    """Each node's directory that fetched last: a node has one at a time."""
    found: dict[int, QuorumReplica] = {}
    for each in sorted(among, key=lambda each: each.last_fetch_ms or 0):
        found[each.replica_id] = each
    return list(found.values())


def _directory(text: str) -> UUID:
    try:
        found = from_text(text)
    except ValueError:
        found = UUID(int=0)
    if is_reserved(found):
        raise ClientError(
            Failure.INVALID, f"{text!r} is no id of a directory: the node's meta.properties has it as directory.id"
        )
    return found


def _options(endpoints: Sequence[QuorumEndpoint]) -> list[str | int]:
    return [word for each in endpoints for word in ("--endpoint", str(each))]


def _majority(voters: int) -> int:
    """How many voters decide."""
    return voters // 2 + 1
