"""Messages with random values in all fields of a version, driven by the tables. Only the seed determines them."""

import random
from typing import Any
from uuid import UUID

from broker_cy.schemas import tables
from broker_cy.wire import messages
from broker_cy.wire.codec import Message

ALL = [
    (name, version)
    for name in sorted(tables.message_files())
    for version in range(tables.load(name).versions.low, tables.load(name).versions.high + 1)
]
"""Every message of every table in each of its versions."""

RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
TEXTS = ("", "a", "topic-1", "naïve", "日本語", "😀", "x" * 126, "y" * 127, "z" * 300)


class Generator:
    """Makes messages; `elements_max` bounds their arrays."""

    def __init__(self, seed: object, elements_max: int = 3) -> None:
        self.rng = random.Random(str(seed))
        self.elements_max = elements_max

    def message(self, name: str, version: int) -> Message:
        spec = tables.load(name)
        return self._struct(spec, spec.root, getattr(messages, name), version)

    def _struct(self, spec: tables.MessageSpec, struct: tables.StructSpec, cls: type[Message], version: int) -> Message:
        values: dict[str, Any] = {}
        for field in struct.fields:
            is_tagged = version in field.tagged
            if version not in field.versions or (is_tagged and self.rng.random() < 0.3):
                continue
            if version in field.nullable and self.rng.random() < 0.25:
                values[field.attribute] = None
            elif field.is_array:
                count = self.rng.randrange(self.elements_max + 1)
                values[field.attribute] = [self._value(spec, field, version) for _ in range(count)]
            else:
                values[field.attribute] = self._value(spec, field, version)
        return cls(**values)

    def _value(self, spec: tables.MessageSpec, field: tables.FieldSpec, version: int) -> Any:
        rng = self.rng
        if field.type not in tables.SCALARS:
            cls = getattr(getattr(messages, spec.name), field.type)
            return self._struct(spec, spec.structs[field.type], cls, version)
        if field.type in RANGES:
            low, high = RANGES[field.type]
            return rng.choice((low, high, 0 if low else 1, rng.randint(low, high), rng.randint(max(low, -100), 100)))
        if field.type == "bool":
            return rng.random() < 0.5
        if field.type == "float64":
            return rng.choice((0.0, -1.5, 1e300, rng.random()))
        if field.type == "uuid":
            return UUID(int=rng.choice((0, 1, 2**128 - 1, rng.getrandbits(128))))
        if field.type == "string":
            return rng.choice(TEXTS)
        return rng.randbytes(rng.choice((0, 1, 20, 127, 200)))
