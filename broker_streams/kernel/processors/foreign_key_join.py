"""Processors of a join by a foreign key. plan/steps/foreign_key_join.py has the picture."""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from broker_streams.kernel.errors import StreamsError
from broker_streams.kernel.murmur3 import hash128
from broker_streams.kernel.operators import operator
from broker_streams.kernel.processor import Processor, ProcessorContext, TaskState
from broker_streams.kernel.value_getters import open_getter
from broker_streams.plan.steps import foreign_key_join as steps
from broker_streams.records import Change, Headers, Record, ValueAndTimestamp
from broker_streams.serdes import Serde
from broker_streams.serdes.primitives import BYTES
from broker_streams.serdes.subscriptions import Instruction, Response, Subscription

_SIZE: Final = struct.Struct(">I")


class CombinedKey(NamedTuple):
    """A row of the left table below its row of the right one."""

    foreign_key: Any
    primary_key: Any


class BoundSerde:
    """A serde with the name of a topic that its texts and schemas are about: APPLICATION-TOPIC-SUFFIX."""

    __slots__ = ("_serde", "_topic")

    def __init__(self, serde: Serde | None, default: Serde | None, what: str, task: TaskState, topic: str) -> None:
        """Raises StreamsError: neither the table nor the application has a serde."""
        found = serde or default
        if found is None:
            raise StreamsError(f"a foreign-key join has no serde of {what}: give the table one, or set a default")
        self._serde = found
        self._topic = f"{task.application_id}-{topic}"

    def serialize(self, value: Any, headers: Headers) -> bytes | None:
        return self._serde.serialize(self._topic, value, headers)

    def deserialize(self, data: bytes, headers: Headers) -> Any:
        return self._serde.deserialize(self._topic, data, headers)


class CombinedKeys:
    """Combined keys as bytes: the size of the foreign key int32, the foreign key, the primary key."""

    def __init__(self, step: steps.SubscriptionReceive | steps.ForeignTableJoin, task: TaskState) -> None:
        self._foreign = BoundSerde(step.foreign_key_serde, task.key_serde, "the right keys", task, f"{step.topic}-fk")
        self._primary = BoundSerde(step.primary_key_serde, task.key_serde, "the left keys", task, f"{step.topic}-pk")

    def prefix(self, foreign_key: Any, headers: Headers) -> bytes:
        """The begin of all keys with this foreign key. Raises ValueError: it is serialized to None."""
        data = self._foreign.serialize(foreign_key, headers)
        if data is None:
            raise ValueError(f"the foreign key {foreign_key!r} is serialized to None")
        return _SIZE.pack(len(data)) + data

    def data(self, key: CombinedKey, headers: Headers) -> bytes:
        primary = self._primary.serialize(key.primary_key, headers)
        if primary is None:
            raise ValueError(f"the key {key.primary_key!r} is serialized to None")
        return self.prefix(key.foreign_key, headers) + primary

    def primary_key(self, data: bytes, headers: Headers) -> Any:
        return self._primary.deserialize(data[_SIZE.size + _SIZE.unpack_from(data)[0] :], headers)


@operator(steps.SubscriptionSend)
class SubscriptionSend(Processor):
    def __init__(self, step: steps.SubscriptionSend) -> None:
        self._step = step
        self._extract = step.foreign_key.call

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        step, task = self._step, context.task
        self._foreign = BoundSerde(step.foreign_key_serde, task.key_serde, "the right keys", task, f"{step.topic}-fk")
        self._values = BoundSerde(step.value_serde, task.value_serde, "the left rows", task, f"{step.topic}-vh")

    def process(self, record: Record) -> None:
        new, old, is_latest = record.value
        step = self._step
        if step.reads_versions and not is_latest:
            self.context.drop()
            return
        if step.is_left:
            self._send_left(record, new, old)
        else:
            self._send_inner(record, new, old)

    def _send_left(self, record: Record, new: Any, old: Any) -> None:
        """Each change is answered, also that to a key of None, and a deletion: the result always has a left row."""
        if new is None and old is None:
            return
        key = record.key
        old_key = None if old is None else self._foreign_key(key, old)
        new_key = None if new is None else self._foreign_key(key, new)
        hashed = self._hash(new, record.headers)
        if old_key is not None and self._differ(old_key, new_key, record.headers):
            self._send(record, old_key, hashed, Instruction.DELETE)
        self._send(record, new_key, hashed, Instruction.ANSWER_ALWAYS)

    def _send_inner(self, record: Record, new: Any, old: Any) -> None:
        key = record.key
        old_key = None if old is None else self._foreign_key(key, old)
        if new is None:
            if old_key is not None:
                self._send(record, old_key, None, Instruction.DELETE_AND_ANSWER)
            return
        new_key = self._foreign_key(key, new)
        if new_key is None:
            self.context.drop()
            if old_key is not None:
                hashed = self._hash(new, record.headers)
                self._send(record, old_key, hashed, Instruction.DELETE_AND_ANSWER)
            return
        hashed = self._hash(new, record.headers)
        if old_key is not None and self._differ(old_key, new_key, record.headers):
            self._send(record, old_key, hashed, Instruction.DELETE)
            # The result with the old key must go, also if the right table has no row for the new one.
            self._send(record, new_key, hashed, Instruction.ANSWER_ALWAYS)
        else:
            self._send(record, new_key, hashed, Instruction.ANSWER_IF_FOUND)

    def _foreign_key(self, key: Any, value: Any) -> Any:
        return self._extract(key, value) if self._step.with_key else self._extract(value)

    def _differ(self, one: Any, other: Any, headers: Headers) -> bool:
        return self._foreign.serialize(one, headers) != self._foreign.serialize(other, headers)

    def _hash(self, value: Any, headers: Headers) -> bytes | None:
        return None if value is None else hashed_row(self._values, value, headers)

    def _send(self, record: Record, foreign_key: Any, hashed: bytes | None, instruction: Instruction) -> None:
        """Raises StreamsError: the row did not come from an input record, so the answer could not find back."""
        metadata = self.context.task.metadata
        if metadata is None:
            raise StreamsError(f"{self.context.node} got a row outside an input record, which has no partition")
        subscription = Subscription(hashed, instruction, record.key, metadata.partition)
        self.context.forward_all(Record(foreign_key, subscription, record.timestamp, record.headers))


def hashed_row(serde: BoundSerde, value: Any, headers: Headers) -> bytes:
    """Raises ValueError: the row is serialized to None."""
    data = serde.serialize(value, headers)
    if data is None:
        raise ValueError(f"the row {value!r} of the left table is serialized to None")
    return hash128(data)


@operator(steps.SubscriptionReceive)
class SubscriptionReceive(Processor):
    """Passes (CombinedKey, Change of ValueAndTimestamp of Subscription) on."""

    def __init__(self, step: steps.SubscriptionReceive) -> None:
        self._step = step

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._store = context.state_store(self._step.store)
        self._keys = CombinedKeys(self._step, context.task)

    def process(self, record: Record) -> None:
        subscription: Subscription = record.value
        key = CombinedKey(record.key, subscription.primary_key)
        new = ValueAndTimestamp(subscription, record.timestamp)
        old = None
        if record.key is not None:
            data = self._keys.data(key, record.headers)
            old = self._store.get(data)
            if subscription.instruction in (Instruction.DELETE, Instruction.DELETE_AND_ANSWER):
                self._store.delete(data)
            else:
                self._store.put(data, new)
        elif subscription.instruction is not Instruction.ANSWER_ALWAYS:
            self.context.drop()
            return
        self.context.forward_all(Record(key, Change(new, old), record.timestamp, record.headers))


@operator(steps.SubscriptionJoin)
class SubscriptionJoin(Processor):
    """The answer has the later timestamp of both rows."""

    def __init__(self, step: steps.SubscriptionJoin) -> None:
        self._step = step

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._right = open_getter(self._step.right, context)

    def process(self, record: Record) -> None:
        key: CombinedKey = record.key
        subscription, timestamp = record.value.new
        row = None if key.foreign_key is None else self._right.get(key.foreign_key)
        instruction = subscription.instruction
        if instruction is Instruction.DELETE or (row is None and instruction is Instruction.ANSWER_IF_FOUND):
            return
        value = None
        if row is not None:
            timestamp = max(timestamp, row.timestamp)
            if instruction is not Instruction.DELETE_AND_ANSWER:
                value = row.value
        response = Response(subscription.hash, value, subscription.partition)
        self.context.forward(Record(key.primary_key, response, timestamp, record.headers))

    def close(self) -> None:
        self._right.close()


@operator(steps.ForeignTableJoin)
class ForeignTableJoin(Processor):
    def __init__(self, step: steps.ForeignTableJoin) -> None:
        self._step = step

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._store = context.state_store(self._step.store)
        self._keys = CombinedKeys(self._step, context.task)

    def process(self, record: Record) -> None:
        if record.key is None or (self._step.reads_versions and not record.value.is_latest):
            self.context.drop()
            return
        headers, value, keys = record.headers, record.value.new, self._keys
        for data, (subscription, _) in self._store.prefix_scan(keys.prefix(record.key, headers), BYTES):
            response = Response(subscription.hash, value, subscription.partition)
            self.context.forward_all(Record(keys.primary_key(data, headers), response, record.timestamp, headers))


@operator(steps.ResponseJoin)
class ResponseJoin(Processor):
    def __init__(self, step: steps.ResponseJoin) -> None:
        self._step = step
        self._joiner = step.joiner.call

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        step, task = self._step, context.task
        self._left = open_getter(step.left, context)
        self._values = BoundSerde(step.value_serde, task.value_serde, "the left rows", task, f"{step.topic}-vh")

    def process(self, record: Record) -> None:
        response: Response = record.value
        row = self._left.get(record.key)
        hashed = None if row is None else hashed_row(self._values, row.value, record.headers)
        if hashed != response.hash:
            # The row changed since it asked: its next question is on the way.
            self.context.drop()
            return
        result = None
        if response.foreign_value is not None or (self._step.is_left and row is not None):
            result = self._joiner(None if row is None else row.value, response.foreign_value)
        self.context.forward_all(record.with_value(result))

    def close(self) -> None:
        self._left.close()
