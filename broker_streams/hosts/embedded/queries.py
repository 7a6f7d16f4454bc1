"""Interactive queries of an instance: views of its stores, and where the parts of stores are."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from broker_cy.client.partitioner import partition_of
from broker_cy.client.streams_member import Role
from broker_streams.hosts.measures import State
from broker_streams.kernel.stores.factory import changelog_topic
from broker_streams.plan.stores import Store
from broker_streams.queries.answers import answer
from broker_streams.queries.metadata import KeyQueryMetadata, Placement, StreamsMetadata
from broker_streams.queries.requests import (
    FailureReason,
    LagInfo,
    Position,
    PositionBound,
    QueryResult,
    StateQueryRequest,
    StateQueryResult,
)
from broker_streams.queries.views import StoreUnavailable, View, view_of

if TYPE_CHECKING:
    from broker_streams.hosts.embedded.host import EmbeddedHost
    from broker_streams.hosts.embedded.tasks import Running

WAITING_MAX: Final = 1_000
"""Reads that wait for a commit; further ones are refused."""
READ_S: Final = 5.0
T = TypeVar("T")
_Waiting = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class Queries:
    """`host.queries`. Reads happen between two steps of the host, so they see whole steps.

    A plain call of a view sees what the tasks have processed, committed or not. `read` calls a function when all of
    that is committed: at once while nothing is open, else right after the next commit.
    """

    def __init__(self, host: EmbeddedHost, global_stores: Mapping[str, Any]) -> None:
        self._host, self._global_stores = host, global_stores
        self._waiting: deque[_Waiting] = deque()
        host.after_commit.append(self._serve)
        self.placement = Placement(
            host.plan,
            host.settings.application_id,
            host.partitions_of,
            self._places,
        )

    def _places(self) -> dict[tuple[str, int], tuple[frozenset[tuple[str, int]], frozenset[tuple[str, int]]]]:
        return {(place.host, place.port): parts for place, parts in self._host.member.endpoints.items()}

    def store(self, name: str, *, partition: int | None = None, stale: bool = False) -> View:
        """A view of the store's active parts at this instance; `stale`: also of standbys, and of parts that are being
        restored. Raises StoreUnavailable, also each call of the view.
        """
        store = self.placement.store(name)
        view = view_of(store, lambda: self.parts(name, partition=partition, stale=stale))
        self.parts(name, partition=partition, stale=stale)
        return view

    def parts(self, name: str, *, partition: int | None = None, stale: bool = False) -> dict[int, Any]:
        """The stores themselves, by partition. Raises StoreUnavailable."""
        if (found := self._global_stores.get(name)) is not None:
            return {0: found}
        subtopology = self.placement.subtopology(name)
        parts, restoring = {}, 0
        for (number, at), each in sorted(self._host.tasks.running.items()):
            if number != subtopology or name not in each.task.stores or partition not in (None, at):
                continue
            if each.is_active or stale:
                parts[at] = each.task.stores[name]
            elif each.role is Role.ACTIVE:
                restoring += 1
        if parts:
            return parts
        what = f"store {name}" if partition is None else f"partition {partition} of store {name}"
        if restoring:
            raise StoreUnavailable(f"{what} is being restored; try again, or ask with stale")
        raise StoreUnavailable(f"{what} is not at this instance now")

    def query(self, request: StateQueryRequest) -> StateQueryResult:
        """The answers of the parts of a store at this instance, whose stores are restored. Raises StoreUnavailable: the
        application has no such store. StreamsError, ValueError: the query cannot be.
        """
        name, wanted = request.store_name, request.partitions
        store = self.placement.store(name)
        if self.placement.is_global(name):
            text = f"store {name} is global: KafkaStreams.store has a view of it"
            return StateQueryResult({}, QueryResult.for_failure(FailureReason.UNKNOWN_QUERY_TYPE, text))
        subtopology, state = self.placement.subtopology(name), self._host.life.state
        found: dict[int, QueryResult] = {}
        for (number, partition), each in sorted(self._host.tasks.running.items()):
            is_ready = each.is_active or each.role is not Role.ACTIVE
            if number != subtopology or not is_ready or (wanted is not None and partition not in wanted):
                continue
            if request.is_require_active and not (each.is_active and state is State.RUNNING):
                role = "active" if each.is_active else "a standby"
                text = f"partition {partition} of store {name} is {role}, and the instance is {state.value}"
                found[partition] = QueryResult.for_failure(FailureReason.NOT_ACTIVE, text)
                continue
            found[partition] = answer(
                store,
                each.task.stores[name],
                request.query,
                _position(each),
                PositionBound.unbounded() if request.is_require_active else request.position_bound,
                partition,
                has_info=request.has_execution_info,
            )
        for partition in (wanted or frozenset()) - found.keys():
            text = f"partition {partition} of store {name} is not at this instance now"
            found[partition] = QueryResult.for_failure(FailureReason.NOT_PRESENT, text)
        return StateQueryResult(dict(sorted(found.items())))

    async def partition_lags(self) -> dict[str, dict[int, LagInfo]]:
        """How far the stores at this instance are behind their changelogs, by store and partition. Those that are being
        restored are left out, as in Kafka. Raises ClientError.
        """
        ready = [each for each in self._host.tasks.running.values() if each.is_active or each.role is not Role.ACTIVE]
        places = [
            (name, key, each.is_active, each.restorer.positions.get(key, 0))
            for each in ready
            for key, name in each.restorer.names.items()
        ]
        ends = (await self._host.client.offsets.latest([key for _, key, _, _ in places])).whole() if places else {}
        found: dict[str, dict[int, LagInfo]] = {}
        for name, key, is_active, position in sorted(places):
            # An active task has written what its changelog has.
            at = ends[key] if is_active else position
            found.setdefault(name, {})[key.partition] = LagInfo(at, ends[key])
        return found

    async def read(self, call: Callable[[], T], *, committed: bool | None = None, timeout_s: float = READ_S) -> T:
        """Call a function that reads stores. `committed` None: True with exactly_once_v2. Raises StoreUnavailable: no
        commit ended within the time, or WAITING_MAX others wait; and what the function raises.
        """
        host = self._host
        if committed is None:
            committed = host.settings.is_exactly_once
        if not committed or host.is_settled:
            return call()
        if len(self._waiting) >= WAITING_MAX:
            raise StoreUnavailable(f"{WAITING_MAX} reads wait for a commit; try again")
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((call, done))
        # A host that processes records during a commit has a moment without changes only if it is asked for one.
        host.settle()
        try:
            async with asyncio.timeout(timeout_s):
                return await done
        except TimeoutError:
            raise StoreUnavailable(f"no commit ended within {timeout_s:g} s; try again") from None

    def _serve(self) -> None:
        while self._waiting:
            call, done = self._waiting.popleft()
            if done.done():
                continue
            try:
                done.set_result(call())
            except Exception as error:
                done.set_exception(error)

    @property
    def is_exactly_once(self) -> bool:
        return self._host.settings.is_exactly_once

    # ---- metadata

    def query_metadata_for_key(
        self, name: str, key: Any, serialize: Callable[[Any], bytes] | None = None
    ) -> KeyQueryMetadata:
        """The instance whose active task has a key, and its standbys. `serialize` None: the key serde of the store. The
        key was placed by Kafka's default partitioner. Raises StoreUnavailable, ValueError.
        """
        store = self.placement.store(name)
        data = serialize(key) if serialize is not None else self.key_bytes(store, key)
        count = self.placement.partitions(name)
        if count == 0:
            raise StoreUnavailable(f"the topics of store {name} have no partitions yet")
        return self.placement.at(name, 0 if self.placement.is_global(name) else partition_of(data, count))

    def metadata_for_all_streams_clients(self) -> list[StreamsMetadata]:
        return self.placement.all()

    def streams_metadata_for_store(self, name: str) -> list[StreamsMetadata]:
        """Raises StoreUnavailable: the application has no such store."""
        return self.placement.of_store(name)

    def key_serde(self, store: Store) -> Any:
        """The serde of a store's keys."""
        task = self._host.settings.task
        serde = store.key_serde or task.key_serde
        return serde.with_defaults(task.key_serde, task.value_serde) if hasattr(serde, "with_defaults") else serde

    def key_bytes(self, store: Store, key: Any) -> bytes:
        """Raises ValueError: the serde does not take the key."""
        # Serdes of a schema registry name their subjects by the topic.
        topic = changelog_topic(store, self._host.settings.application_id)
        data = self.key_serde(store).serialize(topic, key)
        if data is None:
            raise ValueError(f"the key {key!r} of store {store.name} is serialized to None")
        return bytes(data)


def _position(of: Running) -> Position:
    """The last offsets of its inputs that a task has processed; those of a standby are not known."""
    reached = of.reached() if of.is_active else {}
    found = Position()
    for key in of.inputs:
        at = reached.get(key, of.committed.get(key, 0))
        if at > 0:
            found = found.with_component(key.topic, key.partition, at - 1)
    return found
