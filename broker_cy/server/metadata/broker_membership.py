"""This broker as a member of the cluster: its registration, its heartbeats, and its orderly end (Kafka's
BrokerLifecycleManager).

Each start is a new incarnation. The broker is fenced until it has applied its own registration, so that it knows which
partitions it has; then it is unfenced, and clients are sent to it. Before it stops, it asks the controller to move what
it leads to other brokers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID

from broker_cy.controller.broker_states import Heartbeat
from broker_cy.controller.registration import RegisterBroker
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.logs import facts
from broker_cy.metadata import features
from broker_cy.metadata.image import Endpoint, MetadataImage
from broker_cy.wire import messages

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig
    from broker_cy.controller.operation import Operation
    from broker_cy.wire.codec import Message

LOGGER = logging.getLogger("broker_cy.server.metadata")

# Between two heartbeats while the broker waits to be unfenced, or to be allowed to stop.
URGENT_S: Final = 0.05
# A heartbeat that is not answered within this time is sent again: to another controller, if there is one by then.
ANSWER_S: Final = 4.0
# The same while the broker wants to stop: an election may be under way, but without controllers it stops anyway.
STOPPING_ANSWER_S: Final = 3.0
# An orderly stop that takes longer ends without it: its leadership is taken from the broker when its session ends.
SHUTDOWN_S: Final = 10.0
# The newest version of BrokerRegistration, in which a registration in this process is judged.
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


class RegistrationRefused(Exception):
    """The cluster does not take this broker. The message says why, and what to do."""


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
    ) -> None:
        self.epoch = -1
        self._config = config
        self._controller = controller
        self._loop = loop
        self._cluster_id = cluster_id
        self._incarnation_id = incarnation_id
        self._image = image
        self._beating: asyncio.Task[None] | None = None
        self._unfenced: asyncio.Future[None] = loop.create_future()
        self._may_stop: asyncio.Future[None] = loop.create_future()
        self._wants_to_stop = asyncio.Event()
        self._listeners: dict[str, Endpoint] = {}
        self._log_dirs: tuple[UUID, ...] = ()
        self._previous_epoch = -1

    async def register(
        self, listeners: dict[str, Endpoint], log_dirs: tuple[UUID, ...], previous_epoch: int = -1
    ) -> None:
        """Register this incarnation, and wait until its registration is in the image. `previous_epoch` is that of the
        incarnation before, if it ended in order, else -1.

        Raises RegistrationRefused: also if no controller took it within initial.broker.registration.timeout.ms.
        """
        self._listeners, self._log_dirs, self._previous_epoch = listeners, log_dirs, previous_epoch
        timeout_ms = self._config["initial.broker.registration.timeout.ms"]
        reason = "no active controller was found"
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while True:
                    try:
                        await self._register(timeout_ms / 1000)
                        break
                    except KafkaError as error:
                        if error.code in _FINAL:
                            raise RegistrationRefused(_advice(self._config, error)) from error
                        if error.message != reason:
                            reason = error.message
                            LOGGER.warning("could not register this broker yet", extra=facts(reason=reason))
                        await asyncio.sleep(URGENT_S)
                while not self.is_registered:
                    await asyncio.sleep(URGENT_S)
        except TimeoutError:
            raise RegistrationRefused(
                f"broker {self._config.node_id} could not register within {timeout_ms} ms "
                f"(initial.broker.registration.timeout.ms): {reason}. A majority of the controllers must be running "
                "and reachable, and no other broker may run with this node.id"
            ) from None

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
            RegisterBroker(request, REGISTRATION_VERSION, self._cluster_id),
            request,
            messages.BrokerRegistrationResponse,
            lambda response: int(response.broker_epoch),
            timeout_s,
        )

    def run(self) -> None:
        """Send heartbeats."""
        self._beating = self._loop.create_task(self._beat())

    async def unfenced(self) -> None:
        """Wait until the broker is unfenced for the first time."""
        await asyncio.shield(self._unfenced)

    async def leave(self) -> None:
        """Hand over what this broker leads, and be fenced; SHUTDOWN_S at most."""
        if self._beating is not None and not self._beating.done():
            self._wants_to_stop.set()
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

    async def stop(self) -> None:
        """Send no more heartbeats."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)

    async def _beat(self) -> None:
        interval_s = self._config["broker.heartbeat.interval.ms"] / 1000
        reason = ""
        while True:
            try:
                found = await self._heartbeat()
                reason = ""
            except KafkaError as error:
                if str(error) != reason:
                    reason = str(error)
                    LOGGER.warning("a heartbeat of this broker failed; will retry", extra=facts(reason=reason))
                if self._wants_to_stop.is_set():
                    self._may_stop.set_result(None)
                    return
                if error.code is ErrorCode.STALE_BROKER_EPOCH:
                    await self._register_again()
                wait_s = URGENT_S
            else:
                if not found.is_fenced and not self._unfenced.done():
                    self._unfenced.set_result(None)
                if found.should_shut_down and not self._may_stop.done():
                    self._may_stop.set_result(None)
                    return
                wait_s = URGENT_S if found.is_fenced or self._wants_to_stop.is_set() else interval_s
            if self._wants_to_stop.is_set():
                await asyncio.sleep(wait_s)
                continue
            try:
                async with asyncio.timeout(wait_s):
                    await self._wants_to_stop.wait()
            except TimeoutError:
                pass

    async def _register_again(self) -> None:
        """The controller does not know this incarnation any longer: the broker was unregistered."""
        try:
            await self._register(ANSWER_S)
        except KafkaError as error:
            LOGGER.warning("could not register this broker again", extra=facts(reason=error))

    async def _heartbeat(self) -> Any:
        request = messages.BrokerHeartbeatRequest(
            broker_id=self._config.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._image().offset,
            want_fence=False,
            want_shut_down=self._wants_to_stop.is_set(),
        )
        return await self._controller.run(
            Heartbeat(request),
            request,
            messages.BrokerHeartbeatResponse,
            lambda response: response,
            STOPPING_ANSWER_S if request.want_shut_down else ANSWER_S,
        )


def _advice(config: BrokerConfig, error: KafkaError) -> str:
    node = f"broker {config.node_id} cannot join the cluster: {error.code.name}: {error.message}"
    if error.code is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return (
            f"{node}. Its log.dirs belong to another cluster: use the directories of this cluster, or format new ones"
        )
    if error.code is ErrorCode.UNSUPPORTED_VERSION:
        return f"{node}. Use a version of broker-cy that supports the features of the cluster"
    return node
