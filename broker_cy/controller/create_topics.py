"""CreateTopics: validate names, settings and assignments; one atomic step for all topics of a request."""

from __future__ import annotations

from typing import Any

from broker_cy import config
from broker_cy.controller import mirror_ops, placement, topic_configs
from broker_cy.controller.operation import RECORDS_PER_STEP_MAX, Charge, MetadataStep, Operation, OperationContext
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata import topic_names
from broker_cy.metadata.image import RESOURCE_TOPIC, MetadataImage
from broker_cy.metadata.records import VersionedRecord
from broker_cy.wire import messages

Result = Any  # messages.CreateTopicsResponse.CreatableTopicResult


@dataclass(slots=True)
class CreateTopics(Operation[Any]):
    """Create topics. `request` is a CreateTopicsRequest, the reply a CreateTopicsResponse. With `with_configs` (version
    5 and later) it contains the effective configuration of each new topic.
    """

    request: Any
    with_configs: bool = False
    # Counts the partitions of a topic for a quota of the client. Raises KafkaError if the topic must not be created.
    charge: Charge | None = None

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> Any:
        seen: dict[str, int] = {}
        for topic in self.request.topics:
            seen[topic.name] = seen.get(topic.name, 0) + 1
        results: list[Result] = []
        records: list[VersionedRecord] = []
        partitions = 0
        try:
            self._check_size(context)
            # The topics of this request are not in `state`, because their records are replayed only after the whole
            # step: as in Kafka, names that collide only with each other are accepted. Placement ignores these topics.
            for topic in self.request.topics:
                if seen[topic.name] > 1 or topic.name == topic_names.CLUSTER_METADATA:
                    continue
                try:
                    # One request for many small topics is spread over the brokers, too.
                    start = context.now_ms + partitions
                    result, created = self._create(state, context, topic, start)
                except KafkaError as error:
                    results.append(_failed(topic.name, error.code, error.message))
                    continue
                results.append(result)
                records += created
                partitions += result.num_partitions
                if len(records) > RECORDS_PER_STEP_MAX:
                    raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
        except KafkaError as error:
            failed = [_failed(topic.name, error.code, error.message) for topic in self.request.topics]
            return messages.CreateTopicsResponse(topics=failed)
        for name, count in seen.items():
            if count > 1:
                results.append(_failed(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
            elif name == topic_names.CLUSTER_METADATA:
                results.append(
                    _failed(name, ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
                )
        if not self.request.validate_only:
            step.records += records + mirror_ops.own_producer_ids(state, records, context.new_uuid)
        return messages.CreateTopicsResponse(topics=results)

    def _check_size(self, context: OperationContext) -> None:
        default = int(context.config["num.partitions"])
        total = 0
        for topic in self.request.topics:
            if topic.assignments:
                total += len(topic.assignments)
            else:
                total += default if topic.num_partitions == -1 else max(topic.num_partitions, 0)
        if total > RECORDS_PER_STEP_MAX:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"Excessively large number of partitions per request: {total} requested, "
                f"{RECORDS_PER_STEP_MAX} allowed.",
            )

    def _create(
        self, state: MetadataImage, context: OperationContext, topic: Any, start: int
    ) -> tuple[Result, list[VersionedRecord]]:
        """The result and the records of one topic; raises KafkaError."""
        name = topic.name
        _check_name(state, name)
        settings = _check_settings(context, topic)
        mirror_ops.check(name, settings)
        replica_lists = _manual(state, topic) if topic.assignments else _automatic(state, context, topic, start)
        if self.charge is not None:
            self.charge(len(replica_lists))
        topic_id = context.new_uuid()
        records = [VersionedRecord(messages.TopicRecord(name=name, topic_id=topic_id))]
        for key, value in settings.items():
            record = messages.ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name=name, name=key, value=value)
            records.append(VersionedRecord(record))
        for index, (replicas, isr) in enumerate(replica_lists):
            records.append(placement.new_partition(state, topic_id, index, replicas, isr))
        result = messages.CreateTopicsResponse.CreatableTopicResult(
            name=name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=len(replica_lists),
            replication_factor=len(replica_lists[0][0]),
            configs=topic_configs.effective(settings, context.config) if self.with_configs else [],
        )
        return result, records


def _failed(name: str, code: ErrorCode, message: str) -> Result:
    return messages.CreateTopicsResponse.CreatableTopicResult(
        name=name, error_code=int(code), error_message=message or None, configs=[]
    )


def _check_name(state: MetadataImage, name: str) -> None:
    if state.topics.by_name(name) is not None:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    reason = topic_names.invalid_reason(name)
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    other = state.topics.collides_with(name)
    if other is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")


def _check_settings(context: OperationContext, topic: Any) -> dict[str, str]:
    nulls = [setting.name for setting in topic.configs if setting.value is None]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
    settings = {setting.name: setting.value for setting in topic.configs}
    try:
        for name, value in settings.items():
            config.validate_topic_setting(name, value)
        config.validate_topic_settings(settings, context.config)
    except config.ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return settings


def _manual(state: MetadataImage, topic: Any) -> list[tuple[list[int], list[int]]]:
    """(replicas, in-sync replicas) by partition index, from the assignments of the request."""
    if topic.replication_factor != -1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.num_partitions != -1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    chosen: dict[int, tuple[list[int], list[int]]] = {}
    replication_factor = None
    for assignment in topic.assignments:
        index, replicas = assignment.partition_index, assignment.broker_ids
        if index in chosen:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        placement.check_manual(state, replicas, replication_factor)
        replication_factor = len(replicas)
        isr = placement.in_sync_at_birth(state, replicas)
        if not isr:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "All brokers specified in the manual partition assignment for partition "
                f"{index} are fenced or in controlled shutdown.",
            )
        chosen[index] = (replicas, isr)
    if set(chosen) != set(range(len(chosen))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return [chosen[index] for index in range(len(chosen))]


def _automatic(
    state: MetadataImage, context: OperationContext, topic: Any, start: int
) -> list[tuple[tuple[int, ...], list[int]]]:
    """(replicas, in-sync replicas) by partition index, placed by the controller from `start` on."""
    factor, count = topic.replication_factor, topic.num_partitions
    if factor < -1 or factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if count < -1 or count == 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    factor = int(context.config["default.replication.factor"]) if factor == -1 else factor
    count = int(context.config["num.partitions"]) if count == -1 else count
    unable = f"Unable to replicate the partition {factor} time(s): "
    try:
        placed = placement.place(list(state.brokers.values()), count, factor, start)
    except KafkaError as error:
        raise KafkaError(error.code, unable + error.message) from None
    chosen = []
    for replicas in placed:
        isr = placement.in_sync_at_birth(state, replicas)
        if not isr:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                unable + "All brokers are currently fenced or in controlled shutdown.",
            )
        chosen.append((replicas, isr))
    return chosen
