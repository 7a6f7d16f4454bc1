"""Members of classic groups, controlled by scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker_cy.wire import messages
from tests.compat.differential.script import PATIENCE_S, Run
from tests.support.wait import until

JOIN, SYNC, HEARTBEAT, LEAVE = 9, 5, 4, 5  # the newest versions
REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 27, 79
# The metadata of a consumer that subscribes to topic "t": version 0, ["t"], no user data.
SUBSCRIPTION = bytes.fromhex("000000000001000174ffffffff")
RANGE = ("range", SUBSCRIPTION)


def join(
    group: str,
    member_id: str = "",
    instance: str | None = None,
    protocols: Sequence[tuple[str, bytes]] = (RANGE,),
    protocol_type: str = "consumer",
    session_ms: int = 30_000,
    rebalance_ms: int = 30_000,
    reason: str | None = None,
) -> messages.JoinGroupRequest:
    protocol = messages.JoinGroupRequest.JoinGroupRequestProtocol
    return messages.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocols=[protocol(name=name, metadata=metadata) for name, metadata in protocols],
        reason=reason,
    )


def sync(
    group: str,
    generation: int,
    member_id: str,
    assignments: Sequence[tuple[str, bytes]] = (),
    instance: str | None = None,
    protocol_type: str | None = "consumer",
    protocol_name: str | None = "range",
) -> messages.SyncGroupRequest:
    one = messages.SyncGroupRequest.SyncGroupRequestAssignment
    return messages.SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignments=[one(member_id=member, assignment=data) for member, data in assignments],
    )


def heartbeat(group: str, generation: int, member_id: str, instance: str | None = None) -> messages.HeartbeatRequest:
    return messages.HeartbeatRequest(
        group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
    )


def leave(group: str, *members: tuple[str, str | None]) -> messages.LeaveGroupRequest:
    """Version 3 and later: members as (member id, instance id)."""
    identity = messages.LeaveGroupRequest.MemberIdentity
    return messages.LeaveGroupRequest(
        group_id=group, members=[identity(member_id=member, group_instance_id=instance) for member, instance in members]
    )


class Member:
    """A member with a separate connection; its id is replaced by `name` in the run's responses."""

    def __init__(self, run: Run, group: str, name: str, instance: str | None = None, **how: Any) -> None:
        self.run, self.group, self.name, self.instance, self.how = run, group, name, instance, how
        self.id = ""
        self.generation = -1

    def send_join(self, version: int = JOIN) -> None:
        """Begin to join, with an id if one is needed; the response is received by `joined`."""
        if not self.id and self.instance is None and version >= 4:
            answer = self.run.quietly(join(self.group, **self.how), version, self.name)
            assert answer.error_code == MEMBER_ID_REQUIRED, answer
            self._learn(answer)
        self.run.send(join(self.group, self.id, self.instance, **self.how), version, self.name)

    def joined(self, label: str = "") -> Any:
        """Return the response to the join; recorded if it has a label."""
        answer = self.run.client(self.name).receive()
        assert not isinstance(answer, str), answer
        self._learn(answer)
        if label:
            self.run.record(label, answer)
        else:
            assert answer.error_code == 0, answer
        return answer

    def _learn(self, answer: Any) -> None:
        if answer.error_code in (0, MEMBER_ID_REQUIRED):
            self.id = answer.member_id
            self.run.names.give(self.name, self.id)
        self.generation = answer.generation_id

    def join(self, label: str = "", version: int = JOIN) -> Any:
        self.send_join(version)
        return self.joined(label)

    def sync(self, *assignments: tuple[str, bytes], **how: Any) -> Any:
        """Not recorded; must succeed."""
        request = sync(self.group, self.generation, self.id, assignments, self.instance, **how)
        answer = self.run.quietly(request, SYNC, self.name)
        assert answer.error_code == 0, answer
        return answer

    def heartbeat(self) -> int:
        """Return the error code; not recorded."""
        request = heartbeat(self.group, self.generation, self.id, self.instance)
        return int(self.run.quietly(request, HEARTBEAT).error_code)

    def await_rebalance(self) -> None:
        """Wait until the group requests this member to join again: the requests of others have then arrived."""
        until(lambda: self.heartbeat() == REBALANCE_IN_PROGRESS, f"{self.group} to rebalance", PATIENCE_S)


def stable(run: Run, group: str, *names: str, **how: Any) -> list[Member]:
    """Make a stable group of dynamic members; the first is the leader. Each is assigned its own name."""
    members = [Member(run, group, name, **how) for name in names]
    gather(members)
    return members


def gather(members: Sequence[Member]) -> None:
    """Bring members into one generation, and give each its assignment."""
    first, *others = members
    protocol = first.how.get("protocols", [RANGE])[0][0]
    kind = first.how.get("protocol_type", "consumer")
    first.join()
    first.sync((first.id, first.name.encode()), protocol_type=kind, protocol_name=protocol)
    for at, other in enumerate(others):
        other.send_join()
        for earlier in members[: at + 1]:
            earlier.await_rebalance()
        for earlier in members[: at + 1]:
            earlier.send_join()
        for each in members[: at + 2]:
            each.joined()
        given = [(each.id, each.name.encode()) for each in members[: at + 2]]
        first.sync(*given, protocol_type=kind, protocol_name=protocol)
        for each in members[1 : at + 2]:
            each.sync(protocol_type=kind, protocol_name=protocol)
