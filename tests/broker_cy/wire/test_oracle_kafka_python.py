"""If these fail, we and kafka-python 3, which has Kafka's specifications as JSON, interpret some bytes differently.

Every message and version that kafka-python supports, with random values in all fields, in both directions. It supports
what a client needs: no raft and controller APIs, no KIP-848, share or streams groups, no internal records.
"""

import importlib
import itertools
import pkgutil
from typing import Any

import kafka.protocol
import pytest
from kafka.protocol.api_data import ApiData
from kafka.protocol.api_message import ApiMessage

from broker_cy.schemas import tables
from broker_cy.wire import codec, messages
from tests.broker_cy.wire.random_messages import ALL, Generator
from tests.support.tiers import by_tier


def known_to_kafka_python() -> dict[str, Any]:
    """Return its classes by name. They register as subclasses when their modules are imported."""
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in module.name and "generate" not in module.name:
            importlib.import_module(module.name)
    found: dict[str, Any] = {}
    waiting = [ApiMessage, ApiData]
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        # It makes a subclass for a requested version.
        if cls._struct is not None and getattr(cls, "_class_version", None) is None:
            found.setdefault(cls.__name__, cls)
    return found


CLASSES = known_to_kafka_python()
# Names that differ between kafka-python and Kafka.
RENAMED = {
    ("MetadataResponse", "cluster_authorized_operations"): "authorized_operations",
    ("MetadataResponse", "topic_authorized_operations"): "authorized_operations",
    ("DescribeClusterResponse", "cluster_authorized_operations"): "authorized_operations",
    ("InitProducerIdRequest", "enable_2pc"): "enable2_pc",
}
CASES = [(name, version) for name, version in ALL if name in CLASSES]
SEEDS = by_tier(1, 3)


def to_theirs(
    message: Any, spec: tables.MessageSpec, struct: tables.StructSpec, theirs: Any, version: int
) -> dict[str, Any]:
    """Return the constructor arguments for kafka-python's class with the same values as `message`."""
    values = {}
    for field in struct.fields:
        if version not in field.versions:
            continue
        their_name = RENAMED.get((spec.name, field.attribute), field.attribute)
        their_field = theirs.fields[their_name]
        value = getattr(message, field.attribute)
        if version in field.tagged and value == getattr(type(message)(), field.attribute):
            # A tagged field that is passed to kafka-python is written even at its default.
            continue
        if value is not None and field.type not in tables.SCALARS:
            inner = spec.structs[field.type]
            if field.is_array:
                value = [struct_of(element, spec, inner, their_field, version) for element in value]
            else:
                value = struct_of(value, spec, inner, their_field, version)
        if their_field._json["type"] == "bitfield":
            value = {bit for bit in range(32) if value >> bit & 1}
        values[their_name] = value
    return values


def struct_of(message: Any, spec: tables.MessageSpec, struct: tables.StructSpec, theirs: Any, version: int) -> Any:
    return theirs.data_class(version=version, **to_theirs(message, spec, struct, theirs, version))


@pytest.mark.parametrize("name", sorted({name for name, _ in CASES}))
def test_bytes_and_values_are_those_of_kafka_python(name: str) -> None:
    spec, cls = tables.load(name), CLASSES[name]
    # It writes these two with the version first, as members of a group send them.
    in_front = name in ("ConsumerProtocolAssignment", "ConsumerProtocolSubscription")
    versions = [version for other, version in CASES if other == name]
    for version, seed in itertools.product(versions, range(SEEDS)):
        message, case = Generator((name, version, seed)).message(name, version), f"version {version}, seed {seed}"
        if isinstance(message, messages.ApiVersionsResponse):
            # With an error, it reads the rest as version 0, as a client must (KIP-511).
            message.error_code = 0
        theirs = cls(version=version, **to_theirs(message, spec, spec.root, cls._struct, version))
        data = codec.encode_versioned(message, version) if in_front else codec.encode(message, version)
        assert bytes(theirs.encode()) == data, case
        if in_front:
            assert codec.decode_versioned(type(message), bytes(theirs.encode())) == (message, version), case
            assert cls.decode(data) == theirs, case
            continue
        assert codec.decode(type(message), version, bytes(theirs.encode())) == message, case
        back = cls.decode(data, version=version)
        # Its decoder leaves this out, and its encoder then misses it.
        back._header = None
        assert bytes(back.encode()) == data, case


def test_kafka_python_knows_what_is_said_here() -> None:
    assert len(CLASSES.keys() & set(dir(messages))) == 106
    assert CLASSES.keys() - set(dir(messages)) == {"StickyAssignorUserData"}
    assert {name for name, _ in CASES} >= {"ProduceRequest", "FetchResponse", "JoinGroupRequest", "EndTxnResponse"}
