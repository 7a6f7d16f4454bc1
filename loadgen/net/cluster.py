"""A client's view of a cluster: its brokers, leaders and coordinators, with connections to the brokers that are needed.

Each simulated client has its own, as real clients do.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import gevent

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from loadgen.net.connection import Address, Connection, NetError, connect

# The time for which lookups of a leader or a coordinator are retried before the call fails, in steps of RETRY_S.
FIND_TIMEOUT_S = 10.0
RETRY_S = 0.1
GROUP, TRANSACTION = 0, 1
LATEST, EARLIEST = -1, -2
# The newest versions with topic names instead of ids.
PRODUCE_BY_NAME, FETCH_BY_NAME = 12, 12
LIST_OFFSETS_BY_NAME = 6
_NOT_YET = {
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
# A newly elected leader may not know its election, or its log end, yet.
_MOVING = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.REPLICA_NOT_AVAILABLE,
}


class Refused(Exception):
    """The cluster answered with an error. `name` is Kafka's name of its code."""

    def __init__(self, code: int, api: str, message: str | None = None) -> None:
        self.code = code
        self.name = error_name(code)
        super().__init__(f"{api}: {self.name}" + (f" ({message})" if message else ""))


def error_name(code: int) -> str:
    """Return Kafka's name of an error code."""
    found = ErrorCode(code)
    return found.name if found == code else f"ERROR_{code}"


def check(code: int, api: str, message: str | None = None) -> None:
    """Raise Refused unless `code` is 0."""
    if code:
        raise Refused(code, api, message)


class Partition(NamedTuple):
    """A partition and the id of its leader, -1 if there is none."""

    number: int
    leader: int


def offsets_request(
    topic: str, partitions: Sequence[int], timestamp: int, *, read_committed: bool = False
) -> messages.ListOffsetsRequest:
    """Return a request for offsets of partitions that one broker leads."""
    part = messages.ListOffsetsRequest.ListOffsetsPartition
    wanted = messages.ListOffsetsRequest.ListOffsetsTopic(
        name=topic, partitions=[part(partition_index=each, timestamp=timestamp) for each in partitions]
    )
    return messages.ListOffsetsRequest(replica_id=-1, isolation_level=int(read_committed), topics=[wanted])


class Cluster:
    """Calls raise NetError if no answer arrived, and Refused if the answer is an error."""

    def __init__(self, bootstrap: Sequence[Address], client_id: str, timeout_s: float) -> None:
        self.bootstrap, self.client_id, self.timeout_s = tuple(bootstrap), client_id, timeout_s
        self.controller_id = -1
        self._addresses: dict[int, Address] = {}
        self._connections: dict[Address, Connection] = {}
        self._leaders: dict[str, dict[int, int]] = {}
        self._coordinators: dict[tuple[int, str], int] = {}

    def close(self) -> None:
        """Close all connections."""
        for each in self._connections.values():
            each.close()
        self._connections.clear()

    def connection(self, address: Address) -> Connection:
        """Return the connection to an address, a new one if it is closed."""
        found = self._connections.get(address)
        if found is None or found.closed is not None:
            made = connect(address, self.client_id, self.timeout_s)
            found = self._connections.get(address)
            if found is not None and found.closed is None:
                # Another greenlet was quicker.
                made.close()
                return found
            found = self._connections[address] = made
        return found

    def node(self, node_id: int) -> Connection:
        """Return the connection to a broker."""
        if node_id not in self._addresses:
            self.refresh([])
        address = self._addresses.get(node_id)
        if address is None:
            raise NetError("BROKER_NOT_AVAILABLE", f"the cluster has no broker {node_id} now", sent=False)
        return self.connection(address)

    def any(self) -> Connection:
        """Return a connection to any broker: an open one, else one to the first broker that accepts it."""
        for each in self._connections.values():
            if each.closed is None:
                return each
        error: NetError | None = None
        for address in dict.fromkeys([*self._addresses.values(), *self.bootstrap]):
            try:
                return self.connection(address)
            except NetError as failure:
                error = failure
        assert error is not None
        raise error

    def addresses(self) -> list[Address]:
        """Return the addresses of the brokers, as known from the last answer."""
        return list(self._addresses.values())

    def refresh(self, topics: Sequence[str]) -> messages.MetadataResponse:
        """Request the brokers and the leaders of `topics`."""
        named = [messages.MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        request = messages.MetadataRequest(topics=named, allow_auto_topic_creation=False)
        answer = self.any().call(request, messages.MetadataResponse, at_most=12)
        self._addresses = {each.node_id: (each.host, each.port) for each in answer.brokers}
        self.controller_id = answer.controller_id
        for topic in answer.topics:
            if topic.name is not None and not topic.error_code:
                self._leaders[topic.name] = {each.partition_index: each.leader_id for each in topic.partitions}
        return answer

    def partitions(self, topic: str) -> list[Partition]:
        """Return the partitions of a topic, waiting until each has a leader."""
        until_s = time.monotonic() + min(FIND_TIMEOUT_S, self.timeout_s)
        while True:
            found = next(each for each in self.refresh([topic]).topics if each.name == topic)
            code = found.error_code
            if not code and all(each.leader_id >= 0 for each in found.partitions):
                return sorted(Partition(each.partition_index, each.leader_id) for each in found.partitions)
            if (code and code not in _NOT_YET) or time.monotonic() > until_s:
                raise Refused(code or ErrorCode.LEADER_NOT_AVAILABLE, f"Metadata of topic {topic}")
            gevent.sleep(RETRY_S)

    def leader_id(self, topic: str, partition: int) -> int:
        """Return the id of the leader, as known from the last answer."""
        leader = self._leaders.get(topic, {}).get(partition, -1)
        if leader < 0:
            self.partitions(topic)
            leader = self._leaders.get(topic, {}).get(partition, -1)
            if leader < 0:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {topic}-{partition}")
        return leader

    def leader(self, topic: str, partition: int) -> Connection:
        """Return the connection to the leader of a partition."""
        return self.node(self.leader_id(topic, partition))

    def forget(self, topic: str) -> None:
        """Request the leaders of a topic again, because they were wrong."""
        self._leaders.pop(topic, None)

    def offsets(
        self, topic: str, partitions: Sequence[int], timestamp: int = LATEST, *, read_committed: bool = False
    ) -> dict[int, int]:
        """Return the end offset (or that of `timestamp`, or EARLIEST) of partitions, waiting for new leaders."""
        until_s = time.monotonic() + min(FIND_TIMEOUT_S, self.timeout_s)
        while True:
            try:
                return self._offsets(topic, partitions, timestamp, read_committed)
            except Refused as error:
                if error.code not in _NOT_YET | _MOVING or time.monotonic() > until_s:
                    raise
            self.forget(topic)
            gevent.sleep(RETRY_S)

    def _offsets(self, topic: str, partitions: Sequence[int], timestamp: int, read_committed: bool) -> dict[int, int]:
        theirs: dict[int, list[int]] = {}
        for partition in partitions:
            theirs.setdefault(self.leader_id(topic, partition), []).append(partition)
        found: dict[int, int] = {}
        for leader, numbers in theirs.items():
            request = offsets_request(topic, numbers, timestamp, read_committed=read_committed)
            answer = self.node(leader).call(request, messages.ListOffsetsResponse, at_most=LIST_OFFSETS_BY_NAME)
            for each in answer.topics[0].partitions:
                check(each.error_code, f"ListOffsets of {topic}-{each.partition_index}")
                found[each.partition_index] = each.offset
        return found

    def producer_id(self, timeout_ms: int) -> tuple[int, int]:
        """Return a new producer id and its epoch, waiting while the coordinator starts."""
        request = messages.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=timeout_ms)
        until_s = time.monotonic() + min(FIND_TIMEOUT_S, self.timeout_s)
        while True:
            answer = self.any().call(request, messages.InitProducerIdResponse)
            if answer.error_code not in _NOT_YET or time.monotonic() > until_s:
                check(answer.error_code, "InitProducerId")
                return answer.producer_id, answer.producer_epoch
            gevent.sleep(RETRY_S)

    def controller(self) -> Connection:
        """Return the connection for changes of topics."""
        if self.controller_id < 0:
            self.refresh([])
        return self.node(self.controller_id)

    def coordinator(self, kind: int, key: str) -> Connection:
        """Return the connection to the coordinator of a group or of a transactional id."""
        node_id = self._coordinators.get((kind, key))
        if node_id is None:
            node_id = self._coordinators[(kind, key)] = self._find(kind, key)
        return self.node(node_id)

    def forget_coordinator(self, kind: int, key: str) -> None:
        """Request a coordinator again, because it has moved."""
        self._coordinators.pop((kind, key), None)

    def _find(self, kind: int, key: str) -> int:
        until_s = time.monotonic() + min(FIND_TIMEOUT_S, self.timeout_s)
        # Version 4 requests several keys together (KIP-699); every broker that has it also has version 3.
        request = messages.FindCoordinatorRequest(key=key, key_type=kind)
        while True:
            answer = self.any().call(request, messages.FindCoordinatorResponse, at_most=3)
            if not answer.error_code:
                self._addresses[answer.node_id] = (answer.host, answer.port)
                return int(answer.node_id)
            if answer.error_code not in _NOT_YET or time.monotonic() > until_s:
                raise Refused(answer.error_code, "FindCoordinator", answer.error_message)
            gevent.sleep(RETRY_S)
