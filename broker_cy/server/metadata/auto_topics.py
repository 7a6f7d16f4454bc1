"""Topics that are created because a client asked for them (Kafka's AutoTopicCreationManager)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_cy.controller.create_topics import CreateTopics
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.server.metadata.internal_topics import creatable_topic, is_creatable
from broker_cy.wire import messages

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping

    from broker_cy.server.telemetry.log_events import LogEvents


class AutoTopics:
    """Creates topics in the background; a client that requested one retries until it exists.

    `submit` is that of the controller, `config` that of the broker. The controller's queue bounds the number of
    creations in progress.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        submit: Callable[[CreateTopics], asyncio.Future[Any]],
        log_events: LogEvents,
    ) -> None:
        self._config = config
        self._submit = submit
        self._log_events = log_events
        self._under_way: set[str] = set()

    def create(self, names: Iterable[str]) -> None:
        """Start to create the topics that may be created and are not in progress yet. Failures are logged; as in Kafka,
        clients do not receive the reason.
        """
        wanted = [name for name in names if is_creatable(name) and name not in self._under_way]
        if not wanted:
            return
        request = messages.CreateTopicsRequest(topics=[creatable_topic(name, self._config) for name in wanted])
        try:
            created = self._submit(CreateTopics(request))
        except KafkaError as error:
            self._log_events.topics_not_created(wanted, str(error))
            return
        self._under_way.update(wanted)
        created.add_done_callback(lambda future: self._done(wanted, future))

    def _done(self, wanted: list[str], created: asyncio.Future[Any]) -> None:
        self._under_way.difference_update(wanted)
        if created.cancelled():
            return
        error = created.exception()
        if error is not None:
            self._log_events.topics_not_created(wanted, str(error))
            return
        for result in created.result().topics:
            # Somebody else may have created it in the meantime.
            if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                reason = f"{ErrorCode(result.error_code).name}: {result.error_message}"
                self._log_events.topics_not_created([result.name], reason)
