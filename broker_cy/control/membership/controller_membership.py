"""This controller as a member of the cluster: it registers its listeners and the features that it supports with the
active controller (KIP-919), which needs both before it changes a feature level.

Each start is a new incarnation, which is registered as soon as metadata.version allows it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from broker_cy.control.membership.retries import Retries
from broker_cy.controller.registration import RegisterController
from broker_cy.core.logs import facts
from broker_cy.core.supervision import keep_running
from broker_cy.metadata import features
from broker_cy.wire import messages

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from broker_cy.control.membership.broker_membership import Runner
    from broker_cy.metadata.image import ImageDelta, MetadataImage
    from broker_cy.quorum.voters import Endpoint

LOGGER = logging.getLogger("broker_cy.server.metadata")

# A registration that is not answered within this time is sent again.
ANSWER_S: Final = 5.0
# The longest pause between two attempts, so that two controllers with one id, which replace each other's registration
# without end, do not fill the log.
BACKOFF_S_MAX: Final = 60.0


class ControllerMembership:
    """`apply` compares each image with the required registration, until `stop`."""

    def __init__(
        self,
        node_id: int,
        controller: Runner,
        loop: asyncio.AbstractEventLoop,
        incarnation_id: UUID,
        endpoints: tuple[Endpoint, ...],
        protocol_ids: Mapping[str, int],
    ) -> None:
        """`endpoints` are the advertised addresses of the controller listeners, `protocol_ids` their security protocols
        by name.
        """
        self._node_id = node_id
        self._controller = controller
        self._loop = loop
        self._incarnation_id = incarnation_id
        self._endpoints = endpoints
        self._protocol_ids = protocol_ids
        self._retries = Retries("could not register this controller; will retry", BACKOFF_S_MAX)
        self._registering: asyncio.Task[None] | None = None
        self._was_registered = False
        self._is_missing = False

    def apply(self, _: ImageDelta, image: MetadataImage) -> None:
        """The committed metadata has changed."""
        found = image.controllers.get(self._node_id)
        is_registered = found is not None and found.incarnation_id == self._incarnation_id
        self._is_missing = not is_registered and image.features.metadata_version >= features.MV_CONTROLLER_REGISTRATION
        if self._was_registered and self._is_missing:
            LOGGER.error(
                "another controller has registered with the node.id of this one: give one of them another node.id",
                extra=facts(node=self._node_id),
            )
        self._was_registered = is_registered
        if self._is_missing and self._registering is None:
            self._registering = keep_running(self._loop, self._register, "the registration of this controller")

    async def stop(self) -> None:
        """Stop registering."""
        self._is_missing = False
        if self._registering is not None:
            self._registering.cancel()
            await asyncio.gather(self._registering, return_exceptions=True)

    async def _register(self) -> None:
        await self._retries.run(self._ask)
        self._registering = None

    def _ask(self) -> Coroutine[Any, Any, object] | None:
        """Ask for the registration; None if the cluster has it."""
        if not self._is_missing:
            return None
        request = self._request()
        return self._controller.run(
            RegisterController(request), request, messages.ControllerRegistrationResponse, _nothing, ANSWER_S
        )

    def _request(self) -> messages.ControllerRegistrationRequest:
        request = messages.ControllerRegistrationRequest
        return request(
            controller_id=self._node_id,
            incarnation_id=self._incarnation_id,
            zk_migration_ready=False,
            listeners=[
                request.Listener(
                    name=one.name, host=one.host, port=one.port, security_protocol=self._protocol_ids[one.name]
                )
                for one in self._endpoints
            ],
            features=[
                request.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in features.SUPPORTED.items()
            ],
        )


def _nothing(_: Any) -> None:
    """The response has no content besides its success."""
