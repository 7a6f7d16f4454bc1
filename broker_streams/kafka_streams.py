"""An application as a part of any program, as Kafka's class of this name: it runs in a thread, on the embedded host.

    streams = KafkaStreams(builder, {"application.id": "counts", "bootstrap.servers": "localhost:9092"})
    streams.start()
    streams.store("counts").get("ann")
    streams.close()

`with KafkaStreams(...)` starts it, and closes it at the end. All calls may come from any thread. The thread keeps the
program running until `close`, or until the application ends.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import uvloop

from broker_streams.dsl.builder import StreamsBuilder
from broker_streams.dsl.topology import Topology
from broker_streams.hosts.clients import BOOTSTRAP
from broker_streams.hosts.measures import Life
from broker_streams.hosts.measures import State as InstanceState
from broker_streams.hosts.resetting import delete_state
from broker_streams.hosts.settings import HostSettings
from broker_streams.kernel.errors import StreamsError
from broker_streams.plan.topology import Topology as Plan
from broker_streams.queries.metadata import KeyQueryMetadata, StreamsMetadata
from broker_streams.queries.requests import LagInfo, StateQueryRequest, StateQueryResult
from broker_streams.queries.views import StoreUnavailable, View
from broker_streams.seen.instance import Instance, instance_of
from broker_streams.seen.metrics import samples
from broker_streams.seen.settings import SeenSettings
from broker_streams.settings import resolved

_LOG = logging.getLogger("broker_streams")
T = TypeVar("T")
# A call waits so long for the thread of the application; a read of a store has a shorter limit of its own.
CALL_S: Final = 30.0
# Pauses of an instance that begins again after an error: the first, and the longest.
AGAIN_S: Final = 0.1
AGAIN_MOST_S: Final = 30.0


class StreamThreadExceptionResponse(enum.Enum):
    """The answers of a handler of uncaught errors (StreamsUncaughtExceptionHandler)."""

    REPLACE_THREAD = "replace"
    """The instance begins again at its last commit."""
    SHUTDOWN_CLIENT = "client"
    """The instance ends with the state ERROR."""
    SHUTDOWN_APPLICATION = "application"
    """All instances of the application end."""


def _end(error: Exception) -> StreamThreadExceptionResponse:
    return StreamThreadExceptionResponse.SHUTDOWN_CLIENT


class KafkaStreams:
    """One instance. It cannot be started again after `close`."""

    State = InstanceState

    def __init__(self, topology: StreamsBuilder | Topology | Plan, config: Mapping[str, Any]) -> None:
        """Raises ValueError: a setting is wrong or missing. TopologyError: the topology is."""
        self._config = resolved(config)
        if isinstance(topology, StreamsBuilder):
            topology = topology.build(self._config)
        self._plan = topology.plan if isinstance(topology, Topology) else topology
        self._settings = HostSettings.of(self._config)
        if not self._config.get(BOOTSTRAP):
            raise ValueError(f"{BOOTSTRAP} is missing")
        SeenSettings.of(self._config)
        self._life = Life()
        self._handler: Callable[[Exception], StreamThreadExceptionResponse] = _end
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        # The loop and the instance belong to the application's thread.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._instance: Instance | None = None
        self._stopping = threading.Event()
        self._wake: asyncio.Event | None = None
        self._is_paused = False

    # ---- life

    def state(self) -> InstanceState:
        return self._life.state

    @property
    def error(self) -> BaseException | None:
        """The error that ended the instance."""
        return self._life.error

    def set_state_listener(self, listener: Callable[[InstanceState, InstanceState], None]) -> None:
        """Call `listener` with the new state and the one before, in the thread of the application. Raises StreamsError:
        the instance was started.
        """
        self._must_be_new("set_state_listener")

        def changed(new: InstanceState, old: InstanceState, error: BaseException | None) -> None:
            try:
                listener(new, old)
            except Exception:
                _LOG.exception("the state listener failed")

        self._life.listeners.append(changed)

    def set_uncaught_exception_handler(self, handler: Callable[[Exception], StreamThreadExceptionResponse]) -> None:
        """Let `handler` decide, in the thread of the application, after an error that ended the tasks. By default the
        instance ends. Raises StreamsError: the instance was started.
        """
        self._must_be_new("set_uncaught_exception_handler")
        self._handler = handler

    def start(self) -> None:
        """Start the thread, and return. Raises StreamsError: the instance was started before."""
        with self._lock:
            self._must_be_new("start")
            name = f"{self._settings.application_id}-StreamThread-1"
            self._thread = threading.Thread(target=self._run, name=name)
            self._life.enter(InstanceState.REBALANCING)
            self._thread.start()

    def close(self, timeout_s: float | None = None) -> bool:
        """Commit, leave the group and end the thread; return whether it has ended within the time."""
        with self._lock:
            self._stopping.set()
            if self._thread is None:
                self._life.enter(InstanceState.NOT_RUNNING)
                return True
        self._life.enter(InstanceState.PENDING_SHUTDOWN)
        if (loop := self._loop) is not None:
            try:
                loop.call_soon_threadsafe(self._stop)
            except RuntimeError:
                pass  # the loop is closed: the thread is at its end
        return self.wait(timeout_s)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the instance has ended; return whether it has."""
        if self._thread is None or self._thread is threading.current_thread():
            return self._thread is None
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def __enter__(self) -> KafkaStreams:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def pause(self) -> None:
        """Process no records until `resume`. The instance stays in its group, and its standbys go on."""
        self._pause(True)

    def resume(self) -> None:
        self._pause(False)

    def is_paused(self) -> bool:
        return self._is_paused

    def clean_up(self) -> None:
        """Delete the state of the application below state.dir: it is restored from the changelogs. Raises StreamsError:
        the instance runs, or another process has the state.
        """
        if self._thread is not None and self._thread.is_alive():
            raise StreamsError("clean_up: the instance runs; close it first")
        path = Path(self._settings.state_dir) / self._settings.application_id
        if path.is_dir():
            delete_state(path, self._settings.application_id)

    # ---- stores

    def store(
        self, name: str, *, partition: int | None = None, stale: bool = False, committed: bool | None = None
    ) -> StoreView:
        """A view of the parts of a store at this instance, see Queries.store. `committed`: its calls wait for a moment
        in which all rows are committed, see Queries.read. Raises StoreUnavailable, also each call of the view.
        """
        queries = self._running().host.queries
        view = self._now(lambda: queries.store(name, partition=partition, stale=stale))

        def read(call: Callable[[], Any]) -> Any:
            now = self._running().host.queries
            return self._call(lambda: now.read(call, committed=committed))

        return StoreView(view, read)

    def query_metadata_for_key(
        self, store: str, key: Any, serialize: Callable[[Any], bytes] | None = None
    ) -> KeyQueryMetadata:
        """The instance that has a key, and its standbys. Raises StoreUnavailable, ValueError."""
        queries = self._running().host.queries
        return self._now(lambda: queries.query_metadata_for_key(store, key, serialize))

    def query(self, request: StateQueryRequest, *, committed: bool | None = None) -> StateQueryResult:
        """The answers of the parts of a store at this instance (KIP-796). `committed`: as for `store`. Raises
        StoreUnavailable: the instance does not run, or has no such store. StreamsError, ValueError: the query is wrong.
        """
        queries = self._running().host.queries
        return self._call(lambda: queries.read(lambda: queries.query(request), committed=committed))

    def all_local_store_partition_lags(self) -> dict[str, dict[int, LagInfo]]:
        """How far the stores at this instance are behind their changelogs, by store and partition (KIP-535). Raises
        StoreUnavailable: the instance does not run. ClientError: the cluster does not say where changelogs end.
        """
        return self._call(self._running().host.queries.partition_lags)

    def metadata_for_all_streams_clients(self) -> list[StreamsMetadata]:
        """Raises StoreUnavailable: the instance does not run."""
        return self._now(self._running().host.queries.metadata_for_all_streams_clients)

    def streams_metadata_for_store(self, store: str) -> list[StreamsMetadata]:
        """Raises StoreUnavailable."""
        queries = self._running().host.queries
        return self._now(lambda: queries.streams_metadata_for_store(store))

    def metrics(self) -> dict[str, dict[tuple[str, ...], float]]:
        """The values of all metrics, by name and labels, as docs/streams.md has them. Raises StoreUnavailable: the
        instance does not run.
        """
        watch = self._running().watch
        return self._now(lambda: samples(watch))

    # ---- the thread

    def _must_be_new(self, what: str) -> None:
        if self._thread is not None or self._life.state is not InstanceState.CREATED:
            raise StreamsError(f"{what}: the instance is {self._life.state.value}; CREATED is expected")

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._main())
        except BaseException as error:
            _LOG.error("application %s has ended: %s", self._settings.application_id, error)
            self._life.enter(InstanceState.ERROR, error)
        else:
            self._life.enter(InstanceState.NOT_RUNNING)

    async def _main(self) -> None:
        """Run instances until one ends without an error, or its error is the last one. Raises that error."""
        self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
        pause_s = AGAIN_S
        while not self._stopping.is_set():
            # The answer of the handler to the error that ends this run, if it was asked.
            responses: list[StreamThreadExceptionResponse] = []
            try:
                async with instance_of(self._plan, self._config, "the configuration") as instance:
                    host = instance.host
                    host.is_paused = self._is_paused
                    host.life.listeners.append(self._follow)
                    host.ends_all = partial(self._asked, responses)
                    self._instance = instance
                    if self._stopping.is_set():
                        return
                    await host.run()
                return
            except Exception as error:
                response = responses[0] if responses else self._answer(error)
                if response is not StreamThreadExceptionResponse.REPLACE_THREAD or self._stopping.is_set():
                    raise
                _LOG.warning("application %s begins again: %s", self._settings.application_id, error)
                if self._instance is not None and self._instance.host.committed:
                    pause_s = AGAIN_S
            finally:
                self._instance = None
            try:
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            except TimeoutError:
                pause_s = min(2 * pause_s, AGAIN_MOST_S)

    def _asked(self, found: list[StreamThreadExceptionResponse], error: Exception) -> bool:
        """Ask the handler about an error while the instance is still a member; return whether all instances end."""
        found.append(self._answer(error))
        return found[0] is StreamThreadExceptionResponse.SHUTDOWN_APPLICATION

    def _answer(self, error: Exception) -> StreamThreadExceptionResponse:
        try:
            return self._handler(error)
        except Exception:
            _LOG.exception("the handler of uncaught errors failed")
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT

    def _follow(self, new: InstanceState, old: InstanceState, error: BaseException | None) -> None:
        """The state of the host is that of the instance, but not at its end: another host may follow."""
        if new in (InstanceState.REBALANCING, InstanceState.RUNNING):
            self._life.enter(new)

    def _stop(self) -> None:
        if self._wake is not None:
            self._wake.set()
        if self._instance is not None:
            self._instance.host.stop()

    def _pause(self, is_paused: bool) -> None:
        self._is_paused = is_paused

        def apply() -> None:
            if self._instance is not None:
                self._instance.host.is_paused = is_paused

        if self._instance is not None:
            self._now(apply)

    def _running(self) -> Instance:
        found = self._instance
        if found is None:
            raise StoreUnavailable(f"the instance is {self._life.state.value}")
        return found

    def _now(self, call: Callable[[], T]) -> T:
        async def called() -> T:
            return call()

        return self._call(called)

    def _call(self, call: Callable[[], Awaitable[T]]) -> T:
        """Carry out a call in the thread of the application. Raises what it raises; StoreUnavailable: the application
        ends meanwhile.
        """
        loop = self._loop
        if loop is None or self._thread is threading.current_thread():
            raise StoreUnavailable("stores are not asked in the thread of the application")

        async def called() -> T:
            return await call()

        made = called()
        try:
            future: Future[T] = asyncio.run_coroutine_threadsafe(made, loop)
        except RuntimeError as error:
            made.close()
            raise StoreUnavailable("the instance has ended") from error
        try:
            return future.result(CALL_S)
        except TimeoutError as error:
            future.cancel()
            if self._thread is not None and not self._thread.is_alive():
                raise StoreUnavailable("the instance has ended") from error
            raise


class StoreView:
    """The calls of a view (queries.views) from any thread; those that return iterators return lists."""

    def __init__(self, view: View, read: Callable[[Callable[[], Any]], Any]) -> None:
        self._view, self._read = view, read

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._view, name)
        if name.startswith("_") or not callable(call):
            raise AttributeError(f"a view of a store has no call {name!r}")

        def called(*arguments: Any, **named: Any) -> Any:
            def read() -> Any:
                found = call(*arguments, **named)
                return list(found) if isinstance(found, Iterator) else found

            return self._read(read)

        return called
