"""BrokerRegistration (62), UnregisterBroker (64) and ControllerRegistration (70): the members of the cluster.

A broker epoch is the offset of the first record of the step that registers an incarnation, so it is unique and grows.
"""

from __future__ import annotations

from typing import Any

from broker_cy.controller import elections
from broker_cy.controller.broker_records import registration_record
from broker_cy.controller.operation import MetadataStep, Operation, OperationContext
from broker_cy.controller.rules import Rules, directory_of, is_online
from broker_cy.core import uuid as uuids
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata import features
from broker_cy.metadata.image import BrokerImage, Endpoint, MetadataImage, PartitionImage
from broker_cy.metadata.records import VersionedRecord
from broker_cy.wire import messages

_DUPLICATE = (
    "Another broker is registered with that broker id. If the broker was recently restarted this should self-resolve "
    "once the heartbeat manager expires the broker's session."
)
# Since this version, a request has the epoch of the incarnation before, which ended in order (KIP-966).
PREVIOUS_EPOCH_SINCE = 3


@dataclass(slots=True)
class RegisterBroker(Operation[int]):
    """Register a broker for `request`, a BrokerRegistrationRequest of `version`. The reply is the broker epoch.

    A new incarnation is fenced until its heartbeats say that it has caught up. Before its record, the step takes the
    broker out of in-sync sets and leadership, so that every partition that it led gets a new leader epoch
    (KAFKA-18106); an incarnation that does not prove an orderly end is no eligible leader either (KIP-966). The same
    incarnation amends its registration and keeps its epoch and state. Raises KafkaError: INCONSISTENT_CLUSTER_ID,
    DUPLICATE_BROKER_REGISTRATION while another incarnation may be alive, INVALID_REGISTRATION, UNSUPPORTED_VERSION,
    BROKER_ID_NOT_REGISTERED for a broker that migrates from ZooKeeper.

    With `is_whole`, a broker in the process of the controller has found all of its logs. If it is the only broker, and
    has lost nothing, it goes on to lead partitions without other replicas, in their leader epochs: no other broker has
    acted for them, and no record of these epochs is gone. With thousands of partitions, a start is a tenth of a second
    shorter without these elections. (Kafka elects a leader for each, twice.)
    """

    request: Any
    version: int
    cluster_id: str
    is_whole: bool = False

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> int:
        request = self.request
        if request.cluster_id != self.cluster_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"Expected cluster ID {self.cluster_id}, but got cluster ID {request.cluster_id}",
            )
        existing = state.brokers.get(request.broker_id)
        same = existing is not None and existing.incarnation_id == request.incarnation_id
        if existing is not None and not same and self._is_alive(existing, context):
            raise KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, _DUPLICATE)
        if request.is_migrating_zk_broker:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers.")
        if state.features.metadata_version >= features.MV_DIRECTORIES:
            self._check_directories(state)
        supported = self._supported(state, checks=not self._is_single(state, context))
        records: list[VersionedRecord] = []
        epoch = existing.epoch if same and existing is not None else context.next_offset
        if not same:
            records = self._leave_partitions(state, context, existing)
        registration = registration_record(
            state.features.metadata_version,
            request.broker_id,
            epoch,
            request.incarnation_id,
            self._listeners(),
            supported,
            request.rack,
            tuple(request.log_dirs),
        )
        if same and existing is not None:
            registration.message.fenced = existing.fenced
            registration.message.in_controlled_shutdown = existing.in_controlled_shutdown
        records.append(registration)
        registered_at = context.next_offset + len(records) - 1
        context.heartbeats.register(request.broker_id, epoch, registered_at, context.monotonic_ms)
        step.atomic = False
        step.records += records
        return epoch

    def _is_alive(self, existing: BrokerImage, context: OperationContext) -> bool:
        """Whether the registered process may still run. Two processes cannot listen at the same addresses: if the
        connection to the registered one has ended since its last heartbeat, a process with its addresses is its
        successor (Kafka makes the successor wait until the session ends).
        """
        if not context.heartbeats.has_session(existing, context.monotonic_ms):
            return False
        return not (context.heartbeats.contact(existing).is_cut and self._listeners() == existing.listeners)

    def _is_single(self, state: MetadataImage, context: OperationContext) -> bool:
        """Whether this is the only broker, on the node of the active controller. It may not support all finalized
        levels, because its directories were those of Apache Kafka: no other broker can serve them.
        """
        own = context.config.node_id
        return self.request.broker_id == own and all(each == own for each in state.brokers)

    def _listeners(self) -> dict[str, Endpoint]:
        return {each.name: Endpoint(each.host, each.port, each.security_protocol) for each in self.request.listeners}

    def _leave_partitions(
        self, state: MetadataImage, context: OperationContext, existing: BrokerImage | None
    ) -> list[VersionedRecord]:
        broker_id = self.request.broker_id
        gone = frozenset((broker_id,))
        rules = Rules(state, context.config, gone=gone)
        partitions = state.topics.with_replica(broker_id)
        ended_in_order = (
            self.version >= PREVIOUS_EPOCH_SINCE
            and existing is not None
            and existing.epoch == self.request.previous_broker_epoch
        )
        if rules.elr_enabled and not ended_in_order:
            return elections.after_unclean_shutdown(rules, partitions, broker_id)
        if self.is_whole and ended_in_order and self._is_single(state, context):
            partitions = (each for each in partitions if not self._goes_on(each[2]))
        return elections.without_brokers(rules, partitions, gone)

    def _goes_on(self, partition: PartitionImage) -> bool:
        """Whether the broker leads the partition alone, and still has the directory of its replica."""
        broker_id = self.request.broker_id
        return (
            partition.leader == broker_id
            and partition.replicas == (broker_id,)
            and is_online(self.request.log_dirs, directory_of(partition, broker_id))
        )

    def _check_directories(self, state: MetadataImage) -> None:
        directories = self.request.log_dirs
        problem = None
        if not directories:
            problem = "No directories specified in request"
        elif any(uuids.is_reserved(each) for each in directories):
            problem = "Reserved directory ID in request"
        elif len(set(directories)) != len(directories):
            problem = "Duplicate directory ID in request"
        else:
            for other in state.brokers.values():
                for directory in directories:
                    if other.broker_id != self.request.broker_id and directory in other.log_dirs:
                        problem = (
                            f"Broker {other.broker_id} is already registered with directory {uuids.to_text(directory)}"
                        )
        if problem is not None:
            raise KafkaError(ErrorCode.INVALID_REGISTRATION, problem)

    def _supported(self, state: MetadataImage, *, checks: bool) -> dict[str, tuple[int, int]]:
        """The supported levels by feature. With `checks`, raises KafkaError unless they contain every finalized
        level.
        """
        supported = {
            each.name: (each.min_supported_version, each.max_supported_version) for each in self.request.features
        }
        finalized = state.features.levels()
        if checks:
            for name, levels in supported.items():
                _check_level(name, finalized.get(name, 0), levels)
        if features.METADATA_VERSION not in supported:
            raise KafkaError(ErrorCode.INVALID_REGISTRATION, "Request features do not contain 'metadata.version'")
        for name, level in finalized.items():
            if checks and name not in supported:
                _check_level(name, level, (0, 0))
        return supported


def _check_level(name: str, level: int, levels: tuple[int, int]) -> None:
    low, high = levels
    if not low <= level <= high:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Unable to register because the broker does not support finalized version {level} of {name}. "
            f"The broker wants a version between {low} and {high}, inclusive.",
        )


@dataclass(frozen=True, slots=True)
class UnregisterBroker(Operation[None]):
    """Remove the registration of a broker, and the broker from in-sync sets and leadership; its replicas stay assigned.
    It stays an eligible leader (KIP-966) until it is registered again without the proof of an orderly end, as in Kafka,
    which elects for these partitions, too: the one that it waited for will not come back soon. Raises
    KafkaError(BROKER_ID_NOT_REGISTERED).
    """

    broker_id: int

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> None:
        broker = state.brokers.get(self.broker_id)
        if broker is None:
            raise KafkaError(
                ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {self.broker_id} is not currently registered"
            )
        gone = frozenset((self.broker_id,))
        rules = Rules(state, context.config, gone=gone)
        records = elections.without_brokers(rules, state.topics.with_replica(self.broker_id), gone, eligible=True)
        record = messages.UnregisterBrokerRecord(broker_id=self.broker_id, broker_epoch=broker.epoch)
        records.append(VersionedRecord(record))
        step.atomic = False
        step.records += records


@dataclass(slots=True)
class RegisterController(Operation[None]):
    """Note the listeners and features of a controller (KIP-919). `request` is a ControllerRegistrationRequest. Raises
    KafkaError(UNSUPPORTED_VERSION).
    """

    request: Any

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> None:
        if state.features.metadata_version < features.MV_CONTROLLER_REGISTRATION:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "The current MetadataVersion is too old to support controller registrations.",
            )
        request = self.request
        record = messages.RegisterControllerRecord(
            controller_id=request.controller_id,
            incarnation_id=request.incarnation_id,
            zk_migration_ready=False,
            end_points=[
                messages.RegisterControllerRecord.ControllerEndpoint(
                    name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
                )
                for each in request.listeners
            ],
            features=[
                messages.RegisterControllerRecord.ControllerFeature(
                    name=each.name,
                    min_supported_version=each.min_supported_version,
                    max_supported_version=each.max_supported_version,
                )
                for each in request.features
            ],
        )
        step.records.append(VersionedRecord(record))
