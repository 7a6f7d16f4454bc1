"""The same requests to Apache Kafka's controller and to ours: equal answers, and equal states after each of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from broker_cy.controller import heartbeats
from broker_cy.controller.broker_states import FenceBrokers, ReplaceLeaders
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.fence_reasons import FenceReason
from broker_cy.metadata.image import RESOURCE_TOPIC, BrokerImage, MetadataImage
from broker_cy.metadata.partition_index import is_reassigning
from broker_cy.wire import messages
from tests.broker_cy.controller.acts import BROKERS, Act, Draw, incarnation, operation_of, request_of
from tests.broker_cy.controller.brokers import Brokers
from tests.broker_cy.controller.kafka_controller import CLUSTER_ID, SESSION_TIMEOUT_MS, KafkaController
from tests.support import needs
from tests.support.wait import until

ACTS = 120
SOAK_ACTS, SOAK_SEEDS = 400, 10
FIELDS = (
    "throttle_time_ms",
    "broker_epoch",
    "topic_id",
    # Only in an answer with the configurations of a new topic.
    "configs",
    "num_partitions",
    "replication_factor",
    "producer_id_start",
)


@pytest.fixture
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaController]:
    needs.require(needs.kafka)
    # Each test gets its own controller: Kafka's memory of deleted topics would disturb the next test.
    node = KafkaController(tmp_path_factory.mktemp("controller"))
    try:
        yield node.start()
    finally:
        node.close()


def answer_of(cluster: Brokers, request: Any, version: int) -> Any:
    """Return the answer of our handler, or the error of the whole request."""
    try:
        return cluster.run(operation_of(request, version, CLUSTER_ID, cluster.config))
    except KafkaError as error:
        return error.code


def plain(answer: Any) -> Any:
    """Return the answer without the ids and epochs, which each cluster assigns itself."""
    if isinstance(answer, list):
        return [plain(each) for each in answer]
    if hasattr(answer, "__slots__"):
        names = [name for cls in type(answer).__mro__ for name in getattr(cls, "__slots__", ())]
        return {name: plain(getattr(answer, name)) for name in names if name not in FIELDS and name[0] != "_"}
    return answer


def our_answer(act: Act, answer: Any) -> Any:
    """Our reply in the form of Kafka's answer."""
    if isinstance(answer, ErrorCode):
        return answer.name
    match act.kind:
        case "register" | "unregister" | "ids":
            return "NONE"
        case "beat":
            return (answer.is_caught_up, answer.is_fenced, answer.should_shut_down)
        case "delete" | "grow":
            return [(plain(each)) for each in answer]
        case "config":
            return [(each.code.name, each.message) for each in answer]
    return plain(answer)


def kafkas_answer(act: Act, answer: Any) -> Any:
    code = ErrorCode(getattr(answer, "error_code", 0))
    if code is not ErrorCode.NONE:
        return code.name
    match act.kind:
        case "register" | "unregister" | "ids":
            return "NONE"
        case "beat":
            return (answer.is_caught_up, answer.is_fenced, answer.should_shut_down)
        case "delete":
            return plain(answer.responses)
        case "grow":
            return plain(answer.results)
        case "config":
            return [(ErrorCode(each.error_code).name, each.error_message) for each in answer.responses]
    return plain(answer)


def state(image: MetadataImage) -> dict[str, Any]:
    """Return the part of the state that both must have in common."""
    return {
        "partitions": {
            (topic.name, index): partition._replace(
                elr=tuple(r for r in partition.elr if r in partition.replicas),
                # Kafka notes -1 where a change of replicas begins another epoch without a leader.
                last_known_elr=tuple(r for r in partition.last_known_elr if r >= 0),
            )._asdict()
            for topic in image.topics
            for index, partition in topic.partitions.items()
        },
        "brokers": {
            broker.broker_id: broker._replace(epoch=0, features={}, fence_reason=FenceReason.UNKNOWN)._asdict()
            for broker in image.brokers.values()
        },
        "configs": {topic.name: image.configs.resource(RESOURCE_TOPIC, topic.name) for topic in image.topics},
        "producer ids": image.next_producer_id,
    }


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[Any, Any]:
    """Return the smallest differing parts: (ours, Kafka's) by name."""
    found = {}
    for name in {**ours, **theirs}:
        one, other = ours.get(name), theirs.get(name)
        if one != other:
            found[name] = differences(one, other) if isinstance(one, dict) and isinstance(other, dict) else (one, other)
    return found


class Pair:
    """Our controller and Kafka's; the test applies each act to both. Kafka's sessions run in real time. Therefore
    unfenced brokers send a heartbeat at every step. If a session ends in Kafka nevertheless, our controller fences the
    broker, too.
    """

    def __init__(self, kafka: KafkaController, cluster: Brokers) -> None:
        self.kafka = kafka
        self.cluster = cluster
        self.history: list[Act] = []
        self._is_deleted = False
        self.first_ids = kafka.image.next_producer_id
        self._last_beat: dict[int, float] = {}
        # The brokers that were eligible leaders until min.insync.replicas changed: by topic, then of deleted topics.
        self._cleared: dict[str, set[int]] = {}
        self._dangling: set[int] = set()

    def _fails_in_kafka(self, act: Act) -> bool:
        """Kafka 4.3.1 keeps a partition in its index of eligible leaders when a change of min.insync.replicas clears
        its ELR. If a broker that was in this ELR is unregistered, or registers after a crash, Kafka's controller also
        elects a leader for this partition. If the topic was deleted, the controller fails with "Topic ID existed in
        isrMembers, but not in the topics map".
        """
        # A broker that is not registered cannot prove a clean shutdown.
        is_clean = act.kind == "register" and act.args[2] and act.args[0] in self.kafka.image.brokers
        stale = self._dangling.union(*self._cleared.values())
        return act.kind in ("register", "unregister") and not is_clean and act.args[0] in stale

    def _note_cleared(self, act: Act) -> None:
        if act.kind == "config" and act.args[1] == "min.insync.replicas":
            topic = self.kafka.image.topics.by_name(act.args[0])
            for partition in topic.partitions.values() if topic else ():
                self._cleared.setdefault(act.args[0], set()).update(partition.elr)
        elif act.kind == "delete":
            self._dangling |= self._cleared.pop(act.args[0], set())

    def act(self, act: Act) -> None:
        if self._fails_in_kafka(act):
            return
        self._note_cleared(act)
        self._is_deleted |= act.kind == "delete"
        if act.kind == "beat" and self._is_deleted:
            # Kafka 4.3.1 fails if a directory that goes offline had a replica of a topic that was deleted.
            act = Act("beat", (*act.args[:3], (), *act.args[4:]))
        self.history.append(act)
        if act.kind == "beat":
            self._last_beat[act.args[0]] = time.monotonic()
        cluster = self.cluster
        ours = our_answer(act, answer_of(cluster, *request_of(act, cluster.image, CLUSTER_ID)))
        theirs = kafkas_answer(act, self.kafka.ask(*request_of(act, self.kafka.image, CLUSTER_ID)))
        assert ours == theirs, f"{act} after {self.history[-8:]}"
        self.forget_strangers()
        self.check(act)

    def forget_strangers(self) -> None:
        """Delete the topics in which the controllers differ. Kafka keeps eligible leaders that left the partition, and
        completes a reassignment as soon as the added replicas are in sync (see `partition_change`).
        """
        strange = {
            topic.name
            for topic in self.kafka.image.topics
            for partition in topic.partitions.values()
            if not set(partition.elr) <= set(partition.replicas)
        }
        strange |= {
            topic.name
            for topic in self.cluster.image.topics
            for index, partition in topic.partitions.items()
            if is_reassigning(partition)
            and not set(partition.replicas) - set(partition.removing_replicas) <= set(partition.isr)
            and not is_reassigned(self.kafka.image, topic.name, index)
        }
        self._is_deleted |= bool(strange)
        for name in strange:
            self._note_cleared(Act("delete", (name,)))
            for image, ask in ((self.cluster.image, self.ask_ours), (self.kafka.image, self.kafka.ask)):
                ask(*request_of(Act("delete", (name,)), image, CLUSTER_ID))

    def ask_ours(self, request: Any, version: int) -> Any:
        return answer_of(self.cluster, request, version)

    def check(self, act: Act) -> None:
        self.fence_expired()
        expected = state(self.kafka.image)
        expected["producer ids"] -= self.first_ids
        assert differences(state(self.cluster.image), expected) == {}, f"{act} after {self.history[-8:]}"

    def keep_alive(self, but: int = -1) -> None:
        for broker in list(self.cluster.image.brokers.values()):
            self.fence_expired()
            if broker.fenced or broker.broker_id == but:
                continue
            # A broker that was fenced while it stopped, and is back, does not stop any longer.
            if not broker.in_controlled_shutdown or not self.is_stopping(broker):
                self.act(Act("beat", (broker.broker_id, "run", False, (), None, False)))
            elif but < 0 and time.monotonic() - self._last_beat.get(broker.broker_id, 0) > SESSION_TIMEOUT_MS / 3000:
                # Every beat is a step of its shutdown.
                self.let_die(broker.broker_id)
        self.fence_expired()

    def is_stopping(self, broker: BrokerImage) -> bool:
        return self.cluster.controller.heartbeats.contact(broker).is_shutting_down

    def fence_expired(self) -> None:
        """Do to ours what the ends of sessions did to Kafka's, in their order."""
        ours, theirs = self.cluster.image.brokers, self.kafka.image.brokers
        ended = [b for b, broker in theirs.items() if broker.fenced and b in ours and not ours[b].fenced]
        for broker_id in sorted(ended, key=lambda b: self._last_beat.get(b, 0)):
            # Kafka does both in one step.
            self.cluster.withdraw(ReplaceLeaders((broker_id,)))
            self.cluster.run(FenceBrokers((broker_id,), FenceReason.SESSION_TIMEOUT))

    def let_die(self, broker_id: int) -> None:
        """Wait until both know that the process is dead, so that another one may register."""
        ends = self._last_beat.get(broker_id, 0) + SESSION_TIMEOUT_MS / 1000

        def is_dead() -> bool:
            self.keep_alive(but=broker_id)
            brokers = self.cluster.image.brokers
            # Nor is the session of a broker that stops to end in the middle of the next act.
            wanted = [b for b in brokers.values() if b.broker_id == broker_id or self.is_stopping(b)]
            return time.monotonic() > ends + 0.05 and all(b.fenced for b in wanted)

        until(is_dead, f"the end of the session of broker {broker_id}", 30)
        self.cluster.run(FenceBrokers((broker_id,), FenceReason.PROCESS_ENDED))


@pytest.mark.parametrize("elr", [True, pytest.param(False, marks=pytest.mark.full)])
def test_answers_and_states_are_kafkas(kafka: KafkaController, elr: bool) -> None:
    """If this fails, brokers of Apache Kafka and of this project cannot be in one cluster, or elect other leaders."""
    compare(kafka, 0, elr, ACTS)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("elr", [True, False])
@pytest.mark.parametrize("seed", range(1, 1 + SOAK_SEEDS))
def test_answers_and_states_are_kafkas_for_long(kafka: KafkaController, seed: int, elr: bool) -> None:
    """The same, for rarer states."""
    compare(kafka, seed, elr, SOAK_ACTS)


def compare(kafka: KafkaController, seed: int, elr: bool, acts: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # Kafka does not hold down brokers that flap.
        patch.setattr(heartbeats, "FLAP_HOLD_MS", 0)
        compare_acts(kafka, seed, elr, acts)


def compare_acts(kafka: KafkaController, seed: int, elr: bool, acts: int) -> None:
    cluster = Brokers.of(elr=elr)
    cluster.run(cluster.records(minimum_of_all_topics()))
    level = messages.UpdateFeaturesRequest.FeatureUpdateKey(
        feature="eligible.leader.replicas.version", max_version_level=int(elr), upgrade_type=1 if elr else 3
    )
    answer = kafka.ask(messages.UpdateFeaturesRequest(feature_updates=[level], timeout_ms=30_000), 2)
    assert answer.error_code == 0, answer
    pair = Pair(kafka, cluster)
    draw = Draw(Random(f"like kafka {elr} {seed}"))
    for broker_id in BROKERS:
        pair.act(Act("register", (broker_id, 0, False)))
        pair.act(Act("beat", (broker_id, "run", False, (), None, False)))
    for _ in range(acts):
        pair.keep_alive()
        act = draw.act(cluster.image)
        if act.kind == "reassign" and act.args[2] is not None and is_reassigned(cluster.image, *act.args[:2]):
            # Cancelling the second of two reassignments restores other replicas (`reassignment`).
            continue
        known = cluster.image.brokers.get(act.args[0]) if act.kind == "register" else None
        if known is not None and known.incarnation_id != incarnation(*act.args[:2]):
            pair.let_die(act.args[0])
        pair.act(act)


def is_reassigned(image: MetadataImage, name: str, index: int) -> bool:
    topic = image.topics.by_name(name)
    partition = topic.partitions.get(index) if topic else None
    return partition is not None and is_reassigning(partition)


def minimum_of_all_topics() -> Any:
    """Kafka sets min.insync.replicas for the cluster when it enables eligible leader replicas."""
    return messages.ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1")
