"""Topics that are created because a client asked for them (Kafka's AutoTopicCreationManager).

As in Kafka, they are created in the name of the client: the active controller authorizes the client, and charges its
quota of changes strictly (KIP-599), for every version of its Metadata request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from broker_cy.control.topics.internal_topics import creatable_topic
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.topic_names import invalid_reason
from broker_cy.wire import messages

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterable, Mapping


class Failures(Protocol):
    """The log of topics that could not be created (LogEvents)."""

    def topics_not_created(self, names: list[str], reason: str) -> None: ...


class AutoTopics:
    """Creates topics in the background; a client that requested one retries until it exists.

    `config` is that of the broker. The controller's queue bounds the number of creations in progress.
    """

    def __init__(self, config: Mapping[str, Any], loop: asyncio.AbstractEventLoop, log_events: Failures) -> None:
        self._config = config
        self._loop = loop
        self._log_events = log_events
        self._under_way: set[str] = set()
        # The loop itself keeps them only weakly.
        self._tasks: set[asyncio.Task[Any]] = set()

    def create(self, names: Iterable[str], ask: Callable[[Any], Coroutine[Any, Any, Any]]) -> None:
        """Start to create the topics that may be created and are not in progress yet; `ask` answers a
        CreateTopicsRequest of the client. Failures are logged; as in Kafka, clients do not receive the reason.
        """
        wanted = [name for name in names if invalid_reason(name) is None and name not in self._under_way]
        if not wanted:
            return
        request = messages.CreateTopicsRequest(topics=[creatable_topic(name, self._config) for name in wanted])
        self._under_way.update(wanted)
        task = self._loop.create_task(ask(request))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._done(wanted, done))

    def _done(self, wanted: list[str], task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self._under_way.difference_update(wanted)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._log_events.topics_not_created(wanted, str(error))
            return
        for result in task.result().topics:
            # Another client may have created it in the meantime.
            if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                reason = f"{ErrorCode(result.error_code).name}: {result.error_message}"
                self._log_events.topics_not_created([result.name], reason)
