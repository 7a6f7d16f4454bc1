"""Our share groups and those of Kafka's GroupCoordinatorShard over the same requests at the same times: the same
answers, the same requests to the share coordinator, and the same records. `make test` compares with Kafka's recorded
answers.

All partitions of a request get their state, or none: in Kafka, one that does not holds up the others. Kafka takes
partitions from a member in the order of hash tables, and leaves deleted topics in targets: a run ends where only
partitions differ.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker_cy.coordinator.records import KeyType, key_type
from broker_cy.coordinator.settings import ShareGroupSettings
from broker_cy.coordinator.share import records
from broker_cy.coordinator.share.group import ShareGroup
from broker_cy.coordinator.share.member import ShareMember
from broker_cy.coordinator.share.state_calls import InitializeState
from broker_cy.coordinator.step import CallFailed, Record
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import ImageDelta, MetadataImage
from broker_cy.metadata.partition import PartitionImage
from broker_cy.metadata.topics import TopicImage
from broker_cy.wire import codec, messages
from tests.broker_cy.coordinator.share_harness import ShareHarness
from tests.support import kafka_tools, needs, recorded

NAME = "share-groups"
TIMEOUT_S = 240.0
RUNS, STEPS = 60, 60
# The least numbers of lines and of initializations that are compared before partitions differ.
LINES_MIN, ASKED_MIN = 2_500, 180
START_MS = 1_700_000_000_000
GROUP = "g"
SETTLED = ("done", "done", "done", "fail")


# ---- what is asked ----


def script() -> list[str]:
    return [line for seed in range(RUNS) for line in requests(seed)]


def requests(seed: int) -> Iterator[str]:
    """The commands of one life of a coordinator. Epochs are drawn near the ones that members may have."""
    rng = random.Random(f"share groups {seed}")
    yield f"new {rng.choice([0, 1_000])}"
    now_ms, numbers = START_MS, 0
    counts: dict[str, int] = {}
    ids: dict[str, int] = {}
    for name in ("t", "u"):
        numbers += 1
        ids[name], counts[name] = numbers, rng.randrange(1, 5)
        yield f"topic {name} {numbers} {counts[name]}"
    epoch = 1
    for _ in range(STEPS):
        draw = rng.random()
        member = f"m{rng.randrange(5)}"
        if draw < 0.3:
            names = ",".join(sorted(rng.sample("tuv", rng.choice([1, 1, 2, 3]))))
            epoch += 1
            yield f"beat {member} 0 {names}"
            yield rng.choice(SETTLED)
        elif draw < 0.65:
            # A request with the previous epoch has all fields: its answer has the assignment in Kafka, too.
            names = rng.choice(["t", "u", "t,u", "t,u,v"])
            yield f"beat {member} {max(1, epoch + rng.randrange(-3, 4))} {names}"
            yield rng.choice(SETTLED)
        elif draw < 0.72:
            yield f"beat {member} -1 -"
        elif draw < 0.82:
            now_ms += rng.choice([1, 1_000, 10_000, 44_999])
            yield f"time {now_ms}"
        elif draw < 0.88:
            name = rng.choice("tuv")
            if name not in counts:
                numbers += 1
                ids[name], counts[name] = numbers, rng.randrange(1, 5)
            elif rng.random() < 0.5 and counts[name] < 6:
                counts[name] += 1
            else:
                del counts[name]
                yield f"gone {name}"
                continue
            yield f"topic {name} {ids[name]} {counts[name]}"
        elif draw < 0.94:
            name = rng.choice(["t", "u", "v"])
            yield f"alter {name} {','.join(map(str, sorted({0, rng.randrange(6)})))}"
            yield "done"
        elif draw < 0.98:
            yield f"forget {' '.join(rng.sample(['t', 'u', 'v'], 2))}"
        else:
            yield "delete"


# ---- our side ----


class Ours:
    """Answers the commands as KafkaShareGroups.java does."""

    def __init__(self) -> None:
        self.harness = ShareHarness()
        self.numbers: dict[str, int] = {}
        self.has_record = False
        self.tokens = 0

    def run(self, line: str) -> str:
        words = line.split(" ")
        answer: str = getattr(self, words[0])(*words[1:])
        return answer

    def new(self, interval_ms: str) -> str:
        settings = ShareGroupSettings(max_size=4, assignment_interval_ms=int(interval_ms))
        self.harness = ShareHarness(share=settings)
        self.harness.topics.image = MetadataImage()
        self.harness.machine.take_image(self.harness.topics.image)
        self.harness.wall_ms = START_MS
        self.has_record = False
        return ""

    def time(self, ms: str) -> str:
        self.harness.advance(int(ms) - self.harness.wall_ms)
        return ""

    def topic(self, name: str, number: str, count: str) -> str:
        before = self._topics()
        partition = PartitionImage((1,), (1,), 1, 0, 0)
        partitions = dict.fromkeys(range(int(count)), partition)
        self.harness.topics.image.topics.put(TopicImage(name, UUID(int=int(number)), partitions))
        self._change(before)
        return ""

    def gone(self, name: str) -> str:
        before, known = self._topics(), self.harness.topics.image.topics.by_name(name)
        assert known is not None
        self.harness.topics.image.topics.remove(known.topic_id)
        return self._records(lambda: self._change(before))

    def _topics(self) -> MetadataImage:
        before = MetadataImage()
        for topic in self.harness.topics.image.topics:
            before.topics.put(topic)
        return before

    def _change(self, before: MetadataImage) -> None:
        self.harness.topics.image.offset += 1
        self.harness.change(ImageDelta.between(before, self.harness.topics.image))

    def beat(self, member_id: str, epoch: str, names: str) -> str:
        topics = None if names == "-" else [] if names == "none" else names.split(",")
        token = self._token()
        found = self._records(lambda: self.harness.beat(token, member_id, int(epoch), topics, group_id=GROUP))
        answer = self.harness.answers[token]
        if answer.error_code:
            return str(answer.error_code)
        assigned = answer.assignment
        assignment = "-" if assigned is None else text({e.topic_id: e.partitions for e in assigned.topic_partitions})
        wanted = "nothing"
        if self.harness.calls:
            (call,) = self.harness.calls
            request: InitializeState = call.request
            wanted = f"{request.state_epoch}@{text(request.start_offsets)}"
        return f"{answer.member_epoch} {assignment} {wanted} {found}"

    def done(self) -> str:
        return self._settled(is_done=True)

    def fail(self) -> str:
        return self._settled(is_done=False)

    def _settled(self, *, is_done: bool) -> str:
        (call,) = self.harness.calls
        self.harness.calls = []
        failed = CallFailed(ErrorCode.COORDINATOR_NOT_AVAILABLE, "away")
        result = self.harness.state.serve(call.request) if is_done else failed
        return self._records(lambda: self.harness.run(call.then, *call.about, result))

    def alter(self, topic: str, partitions: str) -> str:
        token = self._token()
        starts = [(topic, int(each), 5) for each in partitions.split(",")]
        found = self._records(lambda: self.harness.alter(token, *starts, group_id=GROUP))
        if self.harness.calls:
            # The codes of partitions that do not exist, as the answer has them.
            codes = [each.error_code for each in self.harness.calls[0].about[2].responses[0].partitions]
        else:
            answer = self.harness.answers[token]
            if answer.error_code:
                return str(answer.error_code)
            codes = [each.error_code for each in answer.responses[0].partitions]
        return ",".join(f"{each}:{code}" for (_, each, _), code in zip(starts, codes, strict=True)) + f" {found}"

    def forget(self, *names: str) -> str:
        token = self._token()
        group = self.harness.machine.groups.get(GROUP)
        first = self._records(lambda: self.harness.delete_start_offsets(token, *names, group_id=GROUP))
        last = self._records(self.harness.serve) if self.harness.calls else ""
        answer = self.harness.answers[token]
        if answer.error_code:
            return str(answer.error_code)
        codes = dict(sorted((each.topic_name, each.error_code) for each in answer.responses))
        if isinstance(group, ShareGroup) and not self.has_record:
            # In Kafka, topics have no error then: see `offsets.delete`.
            codes = dict.fromkeys(sorted(names), 0)
        shown = "{" + ", ".join(f"{name}={code}" for name, code in codes.items()) + "}"
        return f"{shown} " + (f"{first} then {last}" if last else "")

    def delete(self) -> str:
        token = self._token()
        self.harness.delete_share_groups(token, GROUP)
        self.harness.serve()
        codes: Mapping[str, ErrorCode] = self.harness.answers[token]
        if GROUP not in self.harness.machine.groups:
            self.has_record = False
        return str(int(codes.get(GROUP, ErrorCode.GROUP_ID_NOT_FOUND)))

    def _token(self) -> int:
        self.tokens += 1
        return self.tokens

    def _records(self, act: Any) -> str:
        begin = len(self.harness.log)
        act()
        new = self.harness.log[begin:]
        kinds = [KeyType(key_type(record.key)) for record in new]
        self.has_record = self.has_record or KeyType.SHARE_GROUP_STATE_PARTITION_METADATA in kinds
        shown = (f"{kind.value}={value_text(kind, record)}" for kind, record in zip(kinds, new, strict=True))
        return "[" + ", ".join(sorted(shown)) + "]"


def value_text(kind: KeyType, record: Record) -> str:
    value = record.value
    if value is None:
        return "-"
    if kind is KeyType.SHARE_GROUP_MEMBER_METADATA:
        member = records.with_metadata(ShareMember("m"), value)
        return f"{member.client_id}/{member.client_host}/[{', '.join(sorted(member.topics))}]"
    if kind is KeyType.SHARE_GROUP_METADATA:
        group, _ = codec.decode_versioned(messages.ShareGroupMetadataValue, value)
        return f"{group.epoch}/{group.metadata_hash}"
    if kind is KeyType.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA:
        target, _ = codec.decode_versioned(messages.ShareGroupTargetAssignmentMetadataValue, value)
        return f"{target.assignment_epoch}/{target.assignment_timestamp}"
    if kind is KeyType.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER:
        return text(records.target_of(value))
    if kind is KeyType.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT:
        member = records.with_current(ShareMember("m"), value)
        return f"{member.epoch}/{member.previous_epoch}/{int(member.state)}/{text(member.assigned)}"
    state = records.share_partitions_of(value)
    deleting = ", ".join(map(str, sorted(topic_id.int for topic_id in state.deleting)))
    return f"{text(state.initializing)}/{text(state.initialized)}/[{deleting}]"


def text(partitions: Mapping[UUID, Iterable[int]]) -> str:
    shown = ((topic_id.int, ",".join(map(str, sorted(each)))) for topic_id, each in sorted(partitions.items()))
    return "{" + ",".join(f"{number}=[{each}]" for number, each in shown) + "}"


def ours() -> list[str]:
    """Our answers; a result of the share coordinator that nothing waits for is left out."""
    model, found = Ours(), []
    for line in script():
        is_idle = line in SETTLED and not model.harness.calls
        found.append("" if is_idle else model.run(line))
    return found


# ---- the comparison ----


@needs.java
@pytest.mark.full
def test_recorded_answers_are_those_of_kafka() -> None:
    """If this fails, the answers that `make test` compares with are not Kafka's."""
    source = Path(__file__).with_name("KafkaShareGroups.java")
    done = kafka_tools.run_program(source, stdin=("\n".join(script()) + "\n").encode(), timeout_s=TIMEOUT_S)
    recorded.check(NAME, done.stdout.decode().splitlines())


def test_share_groups_are_those_of_kafka() -> None:
    """If this fails, share members get other partitions or errors than from Kafka, or Kafka reads another group."""
    compared = asked = 0
    is_over = False
    for number, (line, mine, theirs) in enumerate(zip(script(), ours(), recorded.of_kafka(NAME), strict=True)):
        is_over = is_over and not line.startswith("new")
        if is_over or (line in SETTLED and not mine):
            continue
        compared, asked = compared + 1, asked + ("@" in mine)
        if mine != theirs:
            assert shape(mine) == shape(theirs), f"{number}: {line}\n  Kafka {theirs}\n  we    {mine}"
            is_over = True
    assert (compared > LINES_MIN, asked > ASKED_MIN) == (True, True), (compared, asked)


def shape(answer: str) -> str:
    """An answer without its partitions, and without targets."""
    return re.sub(r"\{[^}]*\}", "{}", re.sub(r"13=(\{[^}]*\}|-)(, )?", "", answer))
