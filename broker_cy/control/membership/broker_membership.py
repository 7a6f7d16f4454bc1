"""This broker as a member of the cluster: its registration, its heartbeats, and its controlled shutdown (Kafka's
BrokerLifecycleManager).

Each start is a new incarnation. The broker is fenced until it has applied its own registration, so that it knows its
partitions; then it is unfenced, and clients are sent to it. Before it stops, it asks the controller to move its
leadership to other brokers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID

from broker_cy.control.membership import registration_advice, tiered_topics
from broker_cy.control.membership.cordons import CORDONED, cordoned_ids
from broker_cy.control.membership.registration_refused import RegistrationRefused
from broker_cy.controller import refused_connections
from broker_cy.controller.broker_states import Heartbeat
from broker_cy.controller.registration import RegisterBroker
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.logs import facts
from broker_cy.core.supervision import keep_running
from broker_cy.metadata import features
from broker_cy.metadata.image import Endpoint, MetadataImage
from broker_cy.storage.errors import StorageError
from broker_cy.wire import messages

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig
    from broker_cy.control.membership.failed_directories import FailedDirectories
    from broker_cy.controller.operation import Operation
    from broker_cy.wire.codec import Message

LOGGER = logging.getLogger("broker_cy.server.metadata")

# Between two heartbeats while the broker waits to be unfenced, or to be allowed to stop.
URGENT_S: Final = 0.05
# A heartbeat that is not answered within this time is sent again: to another controller, if one is active by then.
ANSWER_S: Final = 4.0
# The same while the broker wants to stop: an election may be under way, but without controllers it stops anyway.
STOPPING_ANSWER_S: Final = 3.0
# An orderly stop that takes longer ends without it: its leadership is taken from the broker when its session ends.
SHUTDOWN_S: Final = 10.0
# The time between two log lines with the reason of a waiting start.
NOTE_S: Final = 10.0
# The newest version of BrokerRegistration, which a registration in this process uses.
REGISTRATION_VERSION: Final = 4
# The errors of a registration that will not go away by waiting.
_FINAL: Final = frozenset(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.INVALID_REQUEST,
    }
)


class Runner(Protocol):
    """Has the active controller run operations (ControllerService)."""

    async def run(
        self,
        operation: Operation[Any],
        request: Message,
        response: type[Any],
        read: Callable[[Any], Any],
        timeout_s: float,
    ) -> Any: ...


class BrokerMembership:
    """`register` first; `run` sends heartbeats from then on, until `leave` or `stop`."""

    def __init__(
        self,
        config: BrokerConfig,
        controller: Runner,
        loop: asyncio.AbstractEventLoop,
        cluster_id: str,
        incarnation_id: UUID,
        image: Callable[[], MetadataImage],
        reports: Callable[[], Mapping[int, int]],
        unreached: Callable[[], str] = str,
        failed: FailedDirectories | None = None,
        missing_records: Callable[[], int] = lambda: 0,
        is_whole: Callable[[], bool] = lambda: False,
    ) -> None:
        """`reports` returns the brokers that refuse connections, with their epochs, if the active controller takes
        such reports. `unreached` returns the addresses of controllers that cannot be reached, with the reasons.
        `failed` are the data directories whose disks have failed. `missing_records` returns how many records of the
        metadata log the image does not have yet although the active controller has announced them; -1 if it has not
        announced anything. `is_whole` is asked once nothing was lost: see RegisterBroker.
        """
        self.epoch = -1
        self._config = config
        self._controller = controller
        self._loop = loop
        self._cluster_id = cluster_id
        self._incarnation_id = incarnation_id
        self._image = image
        self._reports_now = reports
        self._unreached = unreached
        self._failed = failed
        self._missing_records = missing_records
        self._is_whole = is_whole
        self._hindrance = ""  # why this broker is not registered, or its last heartbeat was not answered
        self._beating: asyncio.Task[None] | None = None
        self._unfenced: asyncio.Future[None] = loop.create_future()
        self._may_stop: asyncio.Future[None] = loop.create_future()
        self._wants_to_stop = False
        self._news = asyncio.Event()  # the next heartbeat is due now
        self._listeners: dict[str, Endpoint] = {}
        self._log_dirs: Mapping[UUID, str] = {}
        self._previous_epoch = -1
        self._reports: set[asyncio.Task[None]] = set()  # one for each end of another broker that is reported

    async def register(
        self, listeners: dict[str, Endpoint], log_dirs: Mapping[UUID, str], previous_epoch: int = -1
    ) -> None:
        """Register this incarnation, and wait until its registration is in the image. `log_dirs` are the data
        directories that are online, by id. `previous_epoch` is that of the incarnation before, if it ended in order,
        else -1.

        Raises RegistrationRefused: also if no controller took it within initial.broker.registration.timeout.ms; and
        StorageError if this node is the active controller and cannot write its metadata log.
        """
        self._listeners, self._log_dirs, self._previous_epoch = listeners, log_dirs, previous_epoch
        timeout_ms = self._config["initial.broker.registration.timeout.ms"]
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._noting(self._until_registered(timeout_ms / 1000), "this broker is not registered yet")
        except TimeoutError:
            raise RegistrationRefused(
                f"broker {self._config.node_id} could not register within {timeout_ms} ms "
                f"(initial.broker.registration.timeout.ms): {self._missing()}"
            ) from None

    async def _until_registered(self, timeout_s: float) -> None:
        if self._config.node_id not in self._image().brokers:
            # New to the cluster: a broker that must not serve its topics must not become a part of it, either.
            await self._learn_topics()
            tiered_topics.refuse(self._config.node_id, self._image())
        while True:
            try:
                await self._register(timeout_s)
                break
            except StorageError:
                # The metadata log of this node, which is the active controller, cannot be written.
                raise
            except KafkaError as error:
                if error.code in _FINAL:
                    await self._learn_features()
                    raise RegistrationRefused(
                        registration_advice.refused(self._config.node_id, error, self._image())
                    ) from error
                if (found := registration_advice.hindrance(self._config.node_id, error)) != self._hindrance:
                    self._hindrance = found
                    LOGGER.warning("could not register this broker yet", extra=facts(reason=self._missing()))
                await asyncio.sleep(URGENT_S)
        self._hindrance = "the active controller has registered it, and the metadata log does not arrive here"
        while not self.is_registered:
            await asyncio.sleep(URGENT_S)
        self._hindrance = ""

    async def _noting(self, work: Coroutine[Any, Any, None], what: str) -> None:
        """Wait for `work`, and log the reason of the wait each NOTE_S."""
        task = self._loop.create_task(work)
        try:
            while not (await asyncio.wait((task,), timeout=NOTE_S))[0]:
                LOGGER.warning(what, extra=facts(reason=self._missing()))
            task.result()
        finally:
            task.cancel()

    def _missing(self) -> str:
        """The reason of this broker's wait, and the remedy."""
        return registration_advice.wait_reason(self._hindrance, self._unreached())

    async def _learn_topics(self) -> None:
        """Wait until the image has all that is committed. Until then it may lack topics."""
        while count := self._missing_records():
            self._hindrance = f"{count} records of the metadata log have not arrived here yet" if count > 0 else ""
            await asyncio.sleep(URGENT_S)
        self._hindrance = ""

    async def _learn_features(self) -> None:
        """Wait until the finalized features are known, which explain a refusal; ANSWER_S at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_S):
                while not self._image().features.metadata_version:
                    await asyncio.sleep(URGENT_S)

    @property
    def is_registered(self) -> bool:
        """Whether the image has this incarnation."""
        found = self._image().brokers.get(self._config.node_id)
        return found is not None and found.incarnation_id == self._incarnation_id

    async def _register(self, timeout_s: float) -> None:
        request = messages.BrokerRegistrationRequest(
            broker_id=self._config.node_id,
            cluster_id=self._cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                messages.BrokerRegistrationRequest.Listener(
                    name=name, host=at.host, port=at.port, security_protocol=at.security_protocol
                )
                for name, at in self._listeners.items()
            ],
            features=[
                messages.BrokerRegistrationRequest.Feature(
                    name=name, min_supported_version=low, max_supported_version=high
                )
                for name, (low, high) in features.SUPPORTED.items()
            ],
            rack=self._config["broker.rack"],
            log_dirs=list(self._log_dirs),
            previous_broker_epoch=self._previous_epoch,
        )
        self.epoch = await self._controller.run(
            RegisterBroker(
                request, REGISTRATION_VERSION, self._cluster_id, self._previous_epoch >= 0 and self._is_whole()
            ),
            request,
            messages.BrokerRegistrationResponse,
            lambda response: int(response.broker_epoch),
            timeout_s,
        )

    def run(self) -> None:
        """Send heartbeats."""
        self._config.on_change(lambda _: self._news.set(), CORDONED)
        self._beating = keep_running(self._loop, self._beat, "heartbeats of this broker")

    def hurry(self) -> None:
        """Send a heartbeat now: another controller is active, this broker was fenced although it runs, or there is
        something to report.
        """
        self._news.set()

    async def unfenced(self) -> None:
        """Wait until the broker is unfenced for the first time."""

        async def unfenced() -> None:
            await asyncio.shield(self._unfenced)

        await self._noting(unfenced(), "this broker is registered, and still fenced")

    async def leave(self) -> None:
        """Hand over this broker's partitions, and be fenced; SHUTDOWN_S at most."""
        if self._beating is not None and not self._beating.done():
            self._wants_to_stop = True
            self._news.set()
            LOGGER.info("asking the controller to move what this broker leads", extra=facts(epoch=self.epoch))
            try:
                async with asyncio.timeout(SHUTDOWN_S):
                    await self._may_stop
            except TimeoutError:
                LOGGER.warning(
                    "the broker stops although the controller did not allow it in time",
                    extra=facts(seconds=SHUTDOWN_S),
                )
        await self.stop()

    def report_end(self, broker_id: int, epoch: int) -> None:
        """Report to the active controller that the process of another broker has ended, in this epoch of its
        registration.
        """
        task = self._loop.create_task(self._report_end(broker_id, epoch))
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)

    async def _report_end(self, broker_id: int, epoch: int) -> None:
        request = messages.BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=epoch,
            current_metadata_offset=self._image().offset,
            want_fence=True,
            # Both together: it has no time to hand over its partitions, and its successor may register immediately.
            want_shut_down=True,
        )
        try:
            await self._controller.run(
                Heartbeat(request), request, messages.BrokerHeartbeatResponse, lambda response: response, ANSWER_S
            )
        except KafkaError as error:
            # STALE_BROKER_EPOCH: it has registered again meanwhile.
            LOGGER.info("could not report the end of a broker", extra=facts(broker=broker_id, reason=error))

    async def stop(self) -> None:
        """Stop the heartbeats and reports."""
        tasks = [*self._reports, *([] if self._beating is None else [self._beating])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _beat(self) -> None:
        interval_s = self._config["broker.heartbeat.interval.ms"] / 1000
        reason = ""
        while True:
            try:
                found = await self._heartbeat()
                reason = self._hindrance = ""
            except KafkaError as error:
                if str(error) != reason:
                    reason = self._hindrance = str(error)
                    LOGGER.warning("a heartbeat of this broker failed; will retry", extra=facts(reason=reason))
                if self._wants_to_stop:
                    self._may_stop.set_result(None)
                    return
                if error.code is ErrorCode.STALE_BROKER_EPOCH:
                    await self._register_again()
                wait_s = URGENT_S
            else:
                if found.is_fenced:
                    self._hindrance = (
                        "the controller keeps it fenced for a while, because it was fenced again and again"
                        if found.is_caught_up
                        else f"it has the metadata log up to offset {self._image().offset}, before its registration"
                    )
                elif not self._unfenced.done():
                    self._unfenced.set_result(None)
                if found.should_shut_down and not self._may_stop.done():
                    self._may_stop.set_result(None)
                    return
                if self._lacks_directories():
                    await self._register_again()
                wait_s = URGENT_S if found.is_fenced or self._wants_to_stop else interval_s
            try:
                async with asyncio.timeout(wait_s):
                    await self._news.wait()
            except TimeoutError:
                pass
            self._news.clear()

    def _lacks_directories(self) -> bool:
        """Whether the registration is older than a metadata.version that makes brokers register their directories."""
        image = self._image()
        own = image.brokers.get(self._config.node_id)
        return own is not None and not own.log_dirs and image.features.metadata_version >= features.MV_DIRECTORIES

    async def _register_again(self) -> None:
        """The controller does not know this incarnation any longer, because the broker was unregistered, or not all of
        it. The same incarnation keeps its epoch and state.
        """
        try:
            await self._register(ANSWER_S)
        except KafkaError as error:
            LOGGER.warning("could not register this broker again", extra=facts(reason=error))

    async def _heartbeat(self) -> Any:
        self._news.clear()
        cordoned = None
        if self._image().features.metadata_version >= features.MV_CORDONED:
            cordoned = list(cordoned_ids(self._config, self._log_dirs))
        offline = () if self._failed is None else self._failed.ids
        # As for a process that has ended: only a fence. Reporting the loss of each directory as well would change every
        # partition twice.
        is_end = self._failed is not None and self._failed.has_all
        request = messages.BrokerHeartbeatRequest(
            broker_id=self._config.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._image().offset,
            want_fence=is_end,
            want_shut_down=is_end or self._wants_to_stop,
            offline_log_dirs=[] if is_end else list(offline),
            cordoned_log_dirs=cordoned,
            _unknown_tags=refused_connections.tag_of(self._reports_now()),
        )
        found = await self._controller.run(
            Heartbeat(request),
            request,
            messages.BrokerHeartbeatResponse,
            lambda response: response,
            STOPPING_ANSWER_S if request.want_shut_down else ANSWER_S,
        )
        if self._failed is not None:
            self._failed.acknowledged(offline)
        return found
