"""The seam of JSON Schema to the registry: canonical text, shapes for comparisons, and values by jsonschema-rs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NoReturn

from broker_registry.schema_types.base import (
    TEXT_BYTES_MAX,
    Difference,
    InvalidSchema,
    Kind,
    ParsedSchema,
    ParseSettings,
    Resolved,
    Unreadable,
)
from broker_registry.schema_types.draws import Draws
from broker_registry.schema_types.json_schema import diff
from broker_registry.schema_types.json_schema.documents import draft_of
from broker_registry.schema_types.json_schema.loader import Loader
from broker_registry.schema_types.json_schema.model import Shape
from broker_registry.schema_types.json_schema.sample import Sampler
from broker_registry.schema_types.json_text import json_text

_BYTES_OF_CHARACTER: Final = 30
"""Estimated memory of a parsed schema for each character of its text."""
SAMPLE_ATTEMPTS: Final = 100
"""Random values that are tried for one that the schema allows."""
_RESERVED: Final = "$$"


class JsonSchema(ParsedSchema):
    """See ParsedSchema. The shapes are made when they are needed: stored schemas may be older than a rule."""

    kind: ClassVar[Kind] = Kind.JSON

    def __init__(self, root: Any, references: Sequence[Resolved]) -> None:
        self.root, self._references = root, tuple(references)
        self.canonical = json_text(root)
        title = root.get("title") if isinstance(root, dict) else None
        self.name = title if isinstance(title, str) else None
        self._shape: Shape | None = None
        self._validator: Any = None
        length = len(self.canonical) + sum(len(each.text) for each in references)
        self.size_bytes = 2_000 + _BYTES_OF_CHARACTER * length

    def shape(self, *, is_checked: bool = False) -> Shape:
        """Raises InvalidSchema."""
        if self._shape is None or is_checked:
            self._shape = Loader(self.root, self._references, is_checked=is_checked).load()
        return self._shape

    def normalized(self) -> JsonSchema:
        return JsonSchema(_sorted(self.root), self._references)

    def formatted(self, format_name: str) -> str:
        return self.canonical

    def is_equivalent(self, other: ParsedSchema) -> bool:
        return isinstance(other, JsonSchema) and self.canonical == other.canonical

    def differences(self, writer: ParsedSchema) -> Sequence[Difference]:
        assert isinstance(writer, JsonSchema)
        try:
            return diff.differences(self.shape(), writer.shape())
        except (InvalidSchema, ValueError, RecursionError) as error:
            text = f"Unexpected exception during compatibility check: {error}"
            return [Difference("EXCEPTION", "#/", text)]

    def has_top_level_field(self, name: str) -> bool:
        properties = self.root.get("properties") if isinstance(self.root, dict) else None
        return isinstance(properties, dict) and name in properties

    # ------------------------------------------------------------------------------------------------ records

    def decode(self, payload: bytes) -> Any:
        try:
            value = json.loads(payload)
        except RecursionError:
            raise ValueError("the record is nested too deep") from None
        except ValueError as error:
            raise ValueError(f"the record is no JSON: {error}") from None
        self.check(value)
        return value

    def resolve(self, payload: bytes, writer: ParsedSchema) -> Any:
        return self.decode(payload)

    def rewritten(self, payload: bytes, writer: ParsedSchema) -> bytes:
        return self.encode(self.decode(payload))

    def left_out(self, payload: bytes, writer: ParsedSchema) -> Sequence[str]:
        """A reader has the document as it is: what its schema does not name is not lost."""
        return ()

    def encode(self, value: Any) -> bytes:
        self.check(value)
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()

    def sample(self, source: Draws, message: str | None = None) -> bytes:
        others = {each.name: json.loads(each.text) for each in self._references}
        sampler = Sampler(self.root, others, source)
        problem = ValueError()
        for _ in range(SAMPLE_ATTEMPTS):
            try:
                return self.encode_message(sampler.value(), message)
            except ValueError as error:
                problem = error
        raise ValueError(f"no random value fits, give values in a file: {problem}")

    def check(self, value: Any) -> None:
        """Raise Unreadable if the schema does not allow a value, and ValueError if the schema cannot be used."""
        if self._validator is None:
            try:
                self._validator = self._library_validator()
            except Exception as error:
                raise ValueError(f"the library cannot use the schema: {error}") from None
        for problem in self._validator.iter_errors(value):
            raise Unreadable("/" + "/".join(str(each) for each in problem.instance_path), problem.message)

    def _library_validator(self) -> Any:
        import jsonschema_rs

        resources = [(each.name, json.loads(each.text)) for each in self._references]
        registry = jsonschema_rs.Registry(resources) if resources else None
        validator = getattr(jsonschema_rs, f"Draft{draft_of(self.root).replace('-', '')}Validator")
        # Else the library would read files and addresses that a schema names.
        return validator(self.root, registry=registry, offline=True)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(each) for key, each in sorted(value.items())}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def parse(schema_text: str, references: Sequence[Resolved], settings: ParseSettings) -> JsonSchema:
    """Raises InvalidSchema."""
    if len(schema_text) > TEXT_BYTES_MAX:
        raise InvalidSchema(f"the schema has {len(schema_text):,} characters; at most {TEXT_BYTES_MAX:,} are allowed")
    try:
        root = json.loads(schema_text, parse_constant=_no_constant)
        found = JsonSchema(root, references)
        if settings.validates:
            if not isinstance(root, dict | bool):
                raise InvalidSchema("Invalid JSON schema: expected an object or boolean at the root")
            found.shape(is_checked=True)
            if settings.is_strict:
                _check_names(root)
        return found.normalized() if settings.normalizes else found
    except RecursionError:
        raise InvalidSchema("the schema is nested too deep") from None
    except InvalidSchema:
        raise
    except ValueError as error:
        raise InvalidSchema(f"Invalid JSON schema: {error}") from None


def _check_names(root: Any) -> None:
    properties = root.get("properties") if isinstance(root, dict) else None
    for name in properties if isinstance(properties, dict) else ():
        if name.startswith(_RESERVED):
            raise InvalidSchema(f"#/properties/{name}: Field names cannot start with {_RESERVED} prefix")
