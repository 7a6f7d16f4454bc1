"""If these fail, we and kio 0.6.5, which is generated from Kafka's specifications, interpret some bytes differently.

Every message and version that kio supports, with random values in all fields, in both directions. kio has no record
types of internal topics. Some fields have narrower types there than on the wire (error codes must be known, times be
dates): their values are drawn to fit.
"""

import dataclasses
import datetime
import importlib
import io
import random
from collections.abc import Mapping
from typing import Any, get_args, get_origin
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer

from broker_cy.schemas import tables
from broker_cy.wire import codec, messages
from tests.broker_cy.wire.random_messages import ALL, Generator
from tests.support.tiers import by_tier

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
DATE_MAX_MS = 4_000_000_000_000
SEEDS = by_tier(1, 3)
ZERO = UUID(int=0)
ODD_NAMES = {
    "k_raft_version": "kraft_version",
    "k_raft_version_feature": "kraft_version_feature",
    "enable2_pc": "enable_2pc",
}

# Files of the broker's own that no client reads, so kio does not have them.
UNKNOWN_TO_KIO = {("ProducerSnapshot", 1), ("QuorumStateData", 0), ("QuorumStateData", 1)}


def known_to_kio() -> dict[tuple[str, int], str]:
    """Return `module:class` of each message and version."""
    by_snake_name: Mapping[int, Any]
    found = {}
    for by_snake_name in schema_name_map.values():
        for version, by_type in by_snake_name.items():
            for path in by_type.values():
                found[path.partition(":")[2], version] = path
    return found


KIO = known_to_kio()


def kio_class(name: str, version: int) -> Any:
    module, _, cls = KIO[name, version].partition(":")
    return getattr(importlib.import_module(module), cls)


def inner_type(kind: Any) -> Any:
    """Return the class of a structure, from `C`, `C | None`, `tuple[C, ...]` or a mixture; None for a scalar."""
    if dataclasses.is_dataclass(kind):
        return kind
    for argument in get_args(kind) if get_origin(kind) is not None else getattr(kind, "__args__", ()):
        found = inner_type(argument)
        if found is not None:
            return found
    return None


class Pairing:
    """Makes one of our messages and kio's entity with the same values."""

    def __init__(self, name: str, version: int, seed: int) -> None:
        self.spec = tables.load(name)
        self.version = version
        self.rng = random.Random(f"{name} {version} {seed}")
        self.ours: Any = Generator((name, version, seed)).message(name, version)
        self.kio = self.entity(self.ours, self.spec.root, kio_class(name, version))

    def entity(self, message: Any, struct: tables.StructSpec, cls: Any) -> Any:
        specs = [spec for spec in struct.fields if self.version in spec.versions]
        fields = dataclasses.fields(cls)
        names = [field.name for field in fields]
        # kio drops the unit if it has a type for times, avoids the names of builtins, and splits KRaft.
        for name, spec in zip(names, specs, strict=True):
            assert ODD_NAMES.get(name, name.removesuffix("_")) in (spec.attribute, spec.attribute.removesuffix("_ms"))
        values: dict[str, Any] = {}
        for field, spec in zip(fields, specs, strict=True):
            value = getattr(message, spec.attribute)
            kind = field.metadata.get("kafka_type")
            ours: Any
            theirs: Any
            nullable = self.version in spec.nullable
            if spec.is_array:
                pairs = [self.value(element, spec, field.type, kind, False) for element in value or ()]
                ours, theirs = [pair[0] for pair in pairs], tuple(pair[1] for pair in pairs)
                if value is None:
                    ours, theirs = None, None
            else:
                ours, theirs = self.value(value, spec, field.type, kind, nullable)
            setattr(message, spec.attribute, ours)
            values[field.name] = theirs
        return cls(**values)

    def value(self, value: Any, spec: tables.FieldSpec, annotation: Any, kind: str | None, nullable: bool) -> Any:
        """Return the value as we represent it, perhaps changed to one that kio supports, and as kio represents it."""
        if value is None:
            assert nullable
            return None, None
        if spec.type not in tables.SCALARS:
            return value, self.entity(value, self.spec.structs[spec.type], inner_type(annotation))
        if kind == "error_code":
            code = self.rng.choice(list(ErrorCode))
            return int(code.value), code
        if kind in ("timedelta_i32", "timedelta_i64"):
            value = value % DATE_MAX_MS if kind == "timedelta_i64" else value
            return value, datetime.timedelta(milliseconds=value)
        if kind == "datetime_i64":
            if "None" in str(annotation) and self.rng.random() < 0.3:
                return -1, None
            value %= DATE_MAX_MS
            return value, EPOCH + datetime.timedelta(milliseconds=value)
        if kind == "uuid":
            # kio writes zero for None, and reads zero as None.
            return value, (None if value == ZERO else value)
        return value, value


@pytest.mark.parametrize("name", sorted({name for name, _ in KIO}))
def test_bytes_and_values_are_those_of_kio(name: str) -> None:
    for version in sorted(version for other, version in KIO if other == name):
        cls = kio_class(name, version)
        for seed in range(SEEDS):
            pairing, case = Pairing(name, version, seed), f"version {version}, seed {seed}"
            buffer = io.BytesIO()
            entity_writer(cls)(buffer, pairing.kio)
            data = codec.encode(pairing.ours, version)
            assert data == buffer.getvalue(), f"{case}\n{pairing.ours}\n{pairing.kio}"
            assert codec.decode(type(pairing.ours), version, buffer.getvalue()) == pairing.ours, case
            assert entity_reader(cls)(data, 0) == (pairing.kio, len(data)), case


def test_kio_lacks_only_what_is_said_here() -> None:
    client_kinds = ("request", "response", "header", "data")
    ours = {(name, version) for name, version in ALL if tables.load(name).kind in client_kinds}
    assert ours - set(KIO) == UNKNOWN_TO_KIO
    assert {name for name, _ in KIO} <= set(dir(messages))
