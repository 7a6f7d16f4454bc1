"""Scripts: sequences of requests, written once, that are sent to Apache Kafka and to this broker in every version.

A script is a function of `(run, version)`, registered with `@script(...)`. The responses to requests with `run.ask` are
recorded under a label; those with `run.quietly` are not. A step that cannot be encoded in a version (it lacks a field)
is left out in that version.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from broker_cy.core.errors import WireError
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey, api_versions
from broker_cy.wire.layout import Message
from tests.compat.differential.client import Answer, Client
from tests.compat.differential.plain import Json, Names, plain
from tests.support.wait import until

# Kafka marks the last version of this API as unstable and does not advertise it to clients.
STABLE_MAX = {ApiKey.INIT_PRODUCER_ID: 5}
TIMEOUT_MS = 15_000
# Longer than any wait in a script, and shorter than a session of a group.
PATIENCE_S = 25.0
INIT_PRODUCER_VERSION = 4
CREATE_VERSION, METADATA_VERSION, DELETE_VERSION, LIST_OFFSETS_VERSION = 7, 12, 6, 7


class Peer(Protocol):
    """A running broker."""

    host: str
    port: int

    def stop(self, timeout_s: float = ...) -> int: ...
    def restart(self) -> object: ...


Script = Callable[["Run", int], None]


@dataclass(frozen=True)
class Entry:
    """A registered script, in one version of its API."""

    name: str
    broker: str
    version: int
    function: Script


SCRIPTS: dict[str, Entry] = {}


def script(api: ApiKey, broker: str = "main", versions: Iterable[int] | None = None) -> Callable[[Script], Script]:
    """Register a script for each version of `api`, or for some; `broker` names one of `brokers.SETTINGS`."""

    def register(function: Script) -> Script:
        for version in versions_of(api) if versions is None else versions:
            name = f"{function.__name__}-v{version}"
            assert name not in SCRIPTS, f"two scripts are called {name}"
            SCRIPTS[name] = Entry(name, broker, version, function)
        return function

    return register


def versions_of(api: ApiKey) -> Iterator[int]:
    low, high = api_versions(api)
    return iter(range(low, STABLE_MAX.get(api, high) + 1))


class Run:
    """One script on one broker; `left_out` has the labels of the steps that could not be encoded."""

    def __init__(self, peer: Peer, entry: Entry) -> None:
        self.name = entry.name
        self.names = Names()
        self.names.give_number("port", "port", peer.port)
        self._recorded: dict[str, Answer] = {}
        self.left_out: set[str] = set()
        self._peer = peer
        self._address = (peer.host, peer.port)
        self._clients: dict[str, Client] = {}
        self.topic_ids: dict[str, uuid.UUID] = {}

    # ---- asking ----

    def client(self, name: str = "") -> Client:
        """Return a separate connection for each name."""
        if name not in self._clients:
            self._clients[name] = Client(self._address)
        return self._clients[name]

    def ask(self, label: str, request: Message, version: int, client: str = "", **how: Any) -> Any:
        """Send, wait for the response and record it. Returns None if the request cannot be encoded in this version."""
        try:
            self.client(client).send(request, version, **how)
        except WireError:
            self.left_out.add(label)
            return None
        return self.receive(label, client)

    def offer(self, label: str, request: Message, version: int, client: str = "") -> bool:
        """Send a request whose response is changed before it is recorded; False if it cannot be encoded."""
        try:
            self.client(client).send(request, version)
        except WireError:
            self.left_out.add(label)
            return False
        return True

    def send(self, request: Message, version: int, client: str = "") -> None:
        """Send a request whose response comes later."""
        self.client(client).send(request, version)

    def receive(self, label: str, client: str = "") -> Any:
        answer = self.answer(label, client)
        self.record(label, answer)
        return answer

    def answer(self, label: str, client: str = "") -> Any:
        """Return the response to the oldest request of a connection; not recorded."""
        try:
            return self.client(client).receive()
        except TimeoutError:
            raise AssertionError(f"{self.name}: no answer to {label!r}") from None

    def record(self, label: str, answer: Answer) -> None:
        """Responses are converted at the end: generated values may get their names later."""
        assert label not in self._recorded, f"{self.name}: two steps are called {label!r}"
        self._recorded[label] = answer

    @property
    def answers(self) -> dict[str, Json]:
        """Return the responses by label, in the order of the script."""
        return {label: plain(answer, self.names) for label, answer in self._recorded.items()}

    def quietly(self, request: Message, version: int, client: str = "quiet") -> Any:
        """Send, and wait for a response that is not recorded."""
        answer = self.client(client).ask(request, version)
        assert not isinstance(answer, str), f"{self.name}: {type(request).__name__} v{version}: {answer}"
        return answer

    def restart(self) -> None:
        """Stop the broker cleanly and start it again on the same port and data."""
        self.close()
        assert self._peer.stop() == 0
        self._peer.restart()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def producer_id(self, name: str = "producer") -> int:
        """Return a new producer id; Kafka has none available directly after a start."""

        def given() -> Any:
            answer = self.quietly(messages.InitProducerIdRequest(transactional_id=None), INIT_PRODUCER_VERSION)
            return answer if answer.error_code == 0 else None

        producer_id: int = until(given, "a producer id", PATIENCE_S).producer_id
        self.names.give_number("producer_id", name, producer_id)
        return producer_id

    # ---- topics ----

    def topic(self, suffix: str = "", partitions: int = 1, **settings: str) -> str:
        """Create a topic that only this script uses, wait until it has leaders, and give its id a name."""
        name = f"{self.name}{suffix}"
        topic = messages.CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                messages.CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in settings.items()
            ],
        )
        request = messages.CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
        (result,) = self.quietly(request, CREATE_VERSION).topics
        assert result.error_code == 0, f"{name}: {result.error_message}"
        self.learn_topic(name, partitions)
        return name

    def learn_topic(self, name: str, partitions: int = 1) -> uuid.UUID:
        """Wait until a topic has leaders, and give its id its name."""

        def led() -> Any:
            found = self.described(name)
            whole = len(found.partitions) == partitions and all(p.leader_id >= 0 for p in found.partitions)
            return found if found.error_code == 0 and whole else None

        def serves() -> bool:
            request = messages.ListOffsetsRequest
            parts = [request.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
            topics = [request.ListOffsetsTopic(name=name, partitions=parts)]
            answer = self.quietly(request(replica_id=-1, topics=topics), LIST_OFFSETS_VERSION)
            return all(partition.error_code == 0 for partition in answer.topics[0].partitions)

        found = until(led, f"{name} with {partitions} partitions to be led", PATIENCE_S)
        until(serves, f"the leaders of {name} to serve", PATIENCE_S)
        self.topic_ids[name] = found.topic_id
        self.names.give(name, found.topic_id)
        topic_id: uuid.UUID = found.topic_id
        return topic_id

    def described(self, name: str) -> Any:
        """Return the topic's current entry in Metadata."""
        asked = messages.MetadataRequest.MetadataRequestTopic(name=name)
        request = messages.MetadataRequest(topics=[asked], allow_auto_topic_creation=False)
        return self.quietly(request, METADATA_VERSION).topics[0]

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until Metadata no longer shows it."""
        state = messages.DeleteTopicsRequest.DeleteTopicState(name=name)
        self.quietly(messages.DeleteTopicsRequest(topics=[state], timeout_ms=TIMEOUT_MS), DELETE_VERSION)
        until(lambda: self.described(name).error_code != 0, f"{name} to be gone", PATIENCE_S)


def run_script(peer: Peer, entry: Entry) -> Run:
    """Run one script to its end."""
    run = Run(peer, entry)
    try:
        entry.function(run, entry.version)
    finally:
        run.close()
    return run
