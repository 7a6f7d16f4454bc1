"""A member of a streams group (KIP-1071), without input or output.

    UNJOINED -> StreamsGroupHeartbeat of epoch 0 -> STABLE -> StreamsGroupHeartbeat ... -> StreamsGroupHeartbeat -1

The coordinator assigns tasks, and tells them in answers to heartbeats: active ones, standbys, and warm-ups, which are
standbys that become active later. The host gives up a task (`Revoke`) before the next heartbeat reports that it is
free. New tasks are in `owned` as soon as no task has to be given up. A task that changes its role is given up in the
one role and taken in the other: the host may keep its state.

`generation` is the epoch of the member. `statuses` says why the group cannot work, such as a missing source topic, and
`endpoints` where the tasks of all members are. The coordinator sets the heartbeat interval and the session timeout.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from broker_cy.client.group_member import Assign, MemberSettings, Mode, Revoke, Send, State, error_name
from broker_cy.client.heartbeat_member import JOIN_EPOCH, LEAVE_EPOCH, HeartbeatMember
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages

STREAMS_HEARTBEAT: Final = "StreamsGroupHeartbeat"
# A static member that only stops: the group keeps its tasks until its session ends.
_STOP_EPOCH: Final = -2
# Statuses of KIP-1071.
MISSING_INTERNAL_TOPICS: Final = 3
ASSIGNMENT_DELAYED: Final = 5
_SOON_OVER: Final = (MISSING_INTERNAL_TOPICS, ASSIGNMENT_DELAYED)
# The first pause before another heartbeat while the group waits for these; each further one is twice as long.
SOON_S: Final = 0.05


class Role(enum.Enum):
    """Whether a member processes the records of a task, or only keeps a copy of its state."""

    ACTIVE = "active"
    STANDBY = "standby"
    WARMUP = "warmup"


class Task(NamedTuple):
    """A part of the application for one partition."""

    role: Role
    subtopology: str
    partition: int

    def __str__(self) -> str:
        return f"{self.role.value} {self.subtopology}_{self.partition}"


class Status(NamedTuple):
    """A reason of the coordinator why tasks wait: KIP-1071 lists the codes."""

    code: int
    detail: str


class Endpoint(NamedTuple):
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamsSettings:
    """The part of the member's settings that only streams groups have. Members of one process have one `process_id`:
    the coordinator puts a task and its standby in different ones.
    """

    topology: messages.StreamsGroupHeartbeatRequest.Topology
    process_id: str
    rack: str | None = None
    endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] | None = None


class _StreamsProtocol:
    """Unused by heartbeats of streams groups."""

    protocol_type = "streams"
    mode = Mode.COOPERATIVE

    def metadata(self, owned: frozenset[Task]) -> Sequence[tuple[str, bytes]]:
        return []

    def parts(self, assignment: bytes) -> frozenset[Task]:
        return frozenset()


class StreamsMember(HeartbeatMember[Task]):
    """One member. `new_id` makes the id of a new member."""

    def __init__(self, settings: MemberSettings, streams: StreamsSettings, new_id: Callable[[], str]) -> None:
        super().__init__(settings, _StreamsProtocol(), new_id)
        self._streams = streams
        self.statuses: tuple[Status, ...] = ()
        # The partitions of the active tasks at each endpoint, and those of standbys.
        self.endpoints: dict[Endpoint, tuple[frozenset[tuple[str, int]], frozenset[tuple[str, int]]]] = {}
        self.failure_text = ""
        # How often the host should pass new offsets to `tell_offsets`.
        self.offset_interval_s = math.inf
        self._endpoints_epoch = -1
        # The pause before the next heartbeat while the group waits for something that soon comes; 0: it does not wait.
        self._pause_s = 0.0
        self._offsets: tuple[Mapping[tuple[str, int], int], Mapping[tuple[str, int], int]] | None = None
        self.shuts_down_application = False

    def tell_offsets(self, reached: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int]) -> None:
        """Pass the sums of changelog offsets that tasks (subtopology, partition) have restored, and of the ends."""
        self._offsets = reached, ends

    def shut_down_application(self) -> None:
        """Ask all members of the group to stop: this one failed for a reason that the others will meet, too."""
        self.shuts_down_application = True
        self._beat_s = 0.0

    # ---- actions ----

    def next(self, now_s: float, *, may_join: bool = True) -> Send | Revoke[Task] | Assign | None:
        if self.state is State.FAILED or now_s < self._retry_s:
            return None
        if may_join and self.state is State.STABLE and self.owned != self._target:
            if moving := self.owned - self._target:
                return Revoke(moving)
            self.owned, self._reports = self._target, True
        self.must_rejoin = self.state is State.STABLE and self.owned != self._target
        if self.state is State.UNJOINED:
            return self._beat(now_s) if may_join else None
        if self._reports or now_s >= self._beat_s:
            return self._beat(now_s)
        return None

    def revoked(self, parts: Iterable[Task]) -> None:
        super().revoked(parts)
        self._reports = True

    def _beat(self, now_s: float) -> Send:
        epoch = self._begin_beat(now_s)
        request = self._request(epoch)
        request.endpoint_information_epoch = self._endpoints_epoch
        request.shutdown_application = self.shuts_down_application
        if epoch == JOIN_EPOCH:
            self._introduce(request)
        if epoch == JOIN_EPOCH or self._reports:
            request.active_tasks, request.standby_tasks, request.warmup_tasks = (
                _by_subtopology(task for task in self.owned if task.role is role) for role in Role
            )
        if self._offsets is not None:
            request.task_offsets, request.task_end_offsets = map(_offsets, self._offsets)
            self._offsets = None
        self._reports = False
        return self.send(STREAMS_HEARTBEAT, request, messages.StreamsGroupHeartbeatResponse)

    def _request(self, epoch: int) -> messages.StreamsGroupHeartbeatRequest:
        return messages.StreamsGroupHeartbeatRequest(
            group_id=self.settings.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.settings.instance_id,
            topology=None,
            active_tasks=None,
            standby_tasks=None,
            warmup_tasks=None,
        )

    def _introduce(self, request: messages.StreamsGroupHeartbeatRequest) -> None:
        streams, endpoint = self._streams, self._streams.endpoint
        request.rebalance_timeout_ms = self.settings.rebalance_timeout_ms
        request.topology, request.process_id, request.rack_id = streams.topology, streams.process_id, streams.rack
        if endpoint is not None:
            request.user_endpoint = messages.StreamsGroupHeartbeatRequest.Endpoint(
                host=endpoint.host, port=endpoint.port
            )
        tag = messages.StreamsGroupHeartbeatRequest.KeyValue
        request.client_tags = [tag(key=key, value=value) for key, value in (streams.client_tags or {}).items()]

    def leave(self) -> Send | None:
        """Return the heartbeat by which a member leaves; None if the coordinator does not know it."""
        return self._last_beat(LEAVE_EPOCH)

    def stop(self) -> Send | None:
        """The same for a static member that comes back: its tasks stay its own until the session ends."""
        return self._last_beat(LEAVE_EPOCH if self.settings.instance_id is None else _STOP_EPOCH)

    def _last_beat(self, epoch: int) -> Send | None:
        send = None
        if self.generation > 0:
            # The answer belongs to the life that ends, and changes nothing.
            send = self.send(STREAMS_HEARTBEAT, self._request(epoch), messages.StreamsGroupHeartbeatResponse)
        self.forget()
        return send

    def _lose(self) -> None:
        super()._lose()
        self.statuses = ()
        self.endpoints, self._endpoints_epoch = {}, -1

    # ---- answers ----

    def no_answer(self, send: Send, now_s: float) -> None:
        super().no_answer(send, now_s)
        # The coordinator may have missed the report.
        self._reports |= self.is_of_now(send) and self.state is State.STABLE

    def take(self, send: Send, answer: messages.StreamsGroupHeartbeatResponse, now_s: float) -> str:
        if not self.is_of_now(send):
            return error_name(answer.error_code) if answer.error_code else ""
        if answer.error_code:
            return self._refused_with(ErrorCode(answer.error_code), answer.error_message or "", now_s)
        self._accepted(answer, now_s)
        self.offset_interval_s = answer.task_offset_interval_ms / 1000 or math.inf
        self.statuses = tuple(Status(each.status_code, each.status_detail) for each in answer.status or ())
        self._look_again(now_s)
        if answer.active_tasks is not None:
            told = zip(Role, (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks), strict=True)
            self._target = frozenset(
                Task(role, each.subtopology_id, partition)
                for role, tasks in told
                for each in tasks or ()
                for partition in each.partitions
            )
            self.must_rejoin = self._target != self.owned
        self._note_endpoints(answer)
        return ""

    def _look_again(self, now_s: float) -> None:
        """The coordinator creates internal topics and assigns within moments: an interval of heartbeats is longer."""
        if not any(each.code in _SOON_OVER for each in self.statuses):
            self._pause_s = 0.0
            return
        self._pause_s = max(SOON_S, 2 * self._pause_s)
        self._beat_s = min(self._beat_s, now_s + self._pause_s)

    def _note_endpoints(self, answer: messages.StreamsGroupHeartbeatResponse) -> None:
        if answer.partitions_by_user_endpoint is None:
            return
        self._endpoints_epoch = answer.endpoint_information_epoch
        self.endpoints = {
            Endpoint(each.user_endpoint.host, each.user_endpoint.port): (
                _partitions(each.active_partitions),
                _partitions(each.standby_partitions),
            )
            for each in answer.partitions_by_user_endpoint
        }

    def _refused_with(self, code: ErrorCode, text: str, now_s: float) -> str:
        name = self._refused_heartbeat(code, now_s)
        if self.state is State.FAILED:
            self.failure_text = text
            self._lose()
        # The coordinator may not have taken the report.
        self._reports |= self.state is State.STABLE
        return name


def _by_subtopology(tasks: Iterable[Task]) -> list[messages.StreamsGroupHeartbeatRequest.TaskIds]:
    found: dict[str, list[int]] = {}
    for task in sorted(tasks, key=lambda each: (each.subtopology, each.partition)):
        found.setdefault(task.subtopology, []).append(task.partition)
    ids = messages.StreamsGroupHeartbeatRequest.TaskIds
    return [ids(subtopology_id=name, partitions=numbers) for name, numbers in found.items()]


def _offsets(of: Mapping[tuple[str, int], int]) -> list[messages.StreamsGroupHeartbeatRequest.TaskOffset]:
    made = messages.StreamsGroupHeartbeatRequest.TaskOffset
    return [made(subtopology_id=name, partition=number, offset=at) for (name, number), at in sorted(of.items())]


def _partitions(of: Iterable[messages.StreamsGroupHeartbeatResponse.TopicPartition]) -> frozenset[tuple[str, int]]:
    return frozenset((each.topic, number) for each in of for number in each.partitions)
