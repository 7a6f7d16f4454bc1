"""Checks of new schemas: a schema that protoc refuses has no readers, and is refused where it is wrong."""

from __future__ import annotations

import pytest

from broker_registry.schema_types.base import InvalidSchema, ParseSettings
from tests.broker_registry.schema_types.protobuf.schemas import proto3, schema

NEW = ParseSettings(is_new=True)
DEFECTS = [
    ("message A { B b = 1; }", r"Could not resolve type: B \(line 1, column 32\)"),
    ("message A {\n  map<string, B> b = 1;\n}", r"Could not resolve type: B \(line 2, column 3\)"),
    ("message A { int32 a = 1; int32 b = 1; }", r"field b has the number 1 of a \(line 1, column 45\)"),
    ("message A { int32 a = 1; int32 a = 2; }", "field a is already defined in A"),
    ("message A { int32 a = 1; oneof o { int32 b = 1; } }", "field b has the number 1 of a"),
    ("message A { int32 a = 1; oneof a { int32 b = 2; } }", "a is already defined in A"),
    ("message A { oneof o {} }", "oneof o has no fields"),
    ("message A { reserved 1; int32 a = 1; }", "field a uses the number 1, which is reserved"),
    ("message A { reserved 2 to max; int32 a = 9; }", "field a uses the number 9, which is reserved"),
    ("message A { reserved 'a'; int32 a = 1; }", "field a uses the name a, which is reserved"),
    ("message A { int32 a = 0; }", "0 is no number of a field"),
    ("message A { int32 a = -1; }", "-1 is no number of a field"),
    ("message A { int32 a = 536870912; }", "536870912 is no number of a field"),
    ("message A { int32 a = 19000; }", "19000 is reserved for Protobuf itself"),
    ("message A { int32 a-b = 1; }", "'a-b' is no name"),
    ("message A.B {}", "'A.B' is no name"),
    ("package a-b; message A {}", "'a-b' is no name of a package"),
    ("message A { message B {} message B {} }", r"B is already defined \(line 1, column 45\)"),
    ("message A { map<string, map<string, int32>> a = 1; }", "field a is a map of maps"),
    (
        "message A { repeated E e = 1; message E { option map_entry = true; int32 key = 1; } }",
        r"E has no key and value for a map \(line 1, column 32\)",
    ),
    ("message A { map<float, int32> a = 1; }", "map key must be non-byte, non-floating point scalar: float"),
    ("message A { int32 a = 1 [default = 5]; }", "field a has a default, which proto3 does not have"),
    ("message A { extensions 5; }", "proto3 has no extension ranges"),
    ("enum E {}", "enum E has no values"),
    ("enum E { ONE = 1; }", "the first value of enum E must be 0 in proto3"),
    ("enum E { Z = 0; A = 1; B = 1; }", r"value B has the number 1 of A \(line 1, column 43\)"),
    ("enum E { Z = 0; Z = 1; }", "value Z is already defined in E"),
    ("enum E { Z = 0; reserved 5; A = 5; }", "value A uses the number 5, which is reserved"),
    ("enum E { Z = 0; } enum F { Z = 0; }", r"duplicate symbol 'Z'.*\(line 1, column 47\)"),
    ("extend Nothing { int32 a = 1; }", r"Could not resolve type: Nothing"),
    ("enum E { Z = 0; } extend E { int32 a = 1; }", "E is no message"),
    ("service S { rpc R (Nothing) returns (Nothing); }", "Could not resolve type: Nothing"),
    ("enum E { Z = 0; } message A {} service S { rpc R (A) returns (E); }", "E is no message"),
    ("option optimize_for = FAST; message A {}", "No enum constant google.protobuf.FileOptions.OptimizeMode.FAST"),
    ("message A { option (confluent.message_meta) = 1; }", "the option confluent.message_meta must be a map"),
    ("message A { option (confluent.message_meta).doc = 1; }", "must be a quoted string"),
    ("message A { int32 a = 1 [features = 1]; }", "the value of the option features must be a map"),
]


@pytest.mark.parametrize(("body", "error"), DEFECTS)
def test_a_new_schema_with_a_defect_is_refused(body: str, error: str) -> None:
    with pytest.raises(InvalidSchema, match=error):
        proto3(body, settings=NEW)


@pytest.mark.parametrize("body", [body for body, _ in DEFECTS if "map<float" not in body])
def test_a_stored_schema_with_a_defect_is_still_read(body: str) -> None:
    """A registry that moved here has texts that were accepted in their time."""
    assert proto3(body).canonical


def test_a_lookup_resolves_names_and_accepts_stored_defects() -> None:
    """A schema that was stored before these checks is found again; one with unknown types never was one."""
    settings = ParseSettings(validates=True)
    assert proto3("message A { int32 a = 1; int32 b = 1; }", settings=settings).name == "A"
    with pytest.raises(InvalidSchema, match="Could not resolve type: B"):
        proto3("message A { B b = 1; }", settings=settings)


def test_strict_checks_do_not_depend_on_a_registration() -> None:
    """The setting validateFields of a subject asks for them."""
    with pytest.raises(InvalidSchema, match="field b has the number 1 of a"):
        proto3("message A { int32 a = 1; int32 b = 1; }", settings=ParseSettings(is_strict=True))


def test_a_group_has_its_own_numbers() -> None:
    text = "message A { optional group G = 1 { optional int32 a = 1; } optional int32 b = 2; }"
    assert schema(text, settings=NEW).name == "A"
    with pytest.raises(InvalidSchema, match="field b has the number 1 of G"):
        schema(text.replace("b = 2", "b = 1"), settings=NEW)


def test_aliases_are_allowed_by_their_option() -> None:
    assert proto3("enum E { option allow_alias = true; Z = 0; Y = 0; }", settings=NEW).name == "E"


def test_a_number_for_extensions_is_not_one_of_a_field() -> None:
    with pytest.raises(InvalidSchema, match="field a uses the number 150, which is for extensions"):
        schema("message A { extensions 100 to 199; optional int32 a = 150; }", settings=NEW)


def test_an_import_without_a_reference_is_an_error_only_if_it_is_used() -> None:
    """As in Confluent's registry; files of options are often left out."""
    assert proto3('import "options.proto"; message A {}', settings=NEW).name == "A"
    with pytest.raises(InvalidSchema, match=r"Could not resolve type: other\.B"):
        proto3('import "other.proto"; message A { other.B b = 1; }', settings=NEW)


@pytest.mark.parametrize(
    "place", ["Date d = 1;", "map<string, Date> d = 1;", "reserved 1; extend Date { int32 d = 9; }"]
)
def test_a_type_of_a_file_that_is_not_imported_is_named_with_its_file(place: str) -> None:
    """Confluent's registry finds it, but no compiler does."""
    text = f"message A {{\n{place.replace('Date', 'google.type.Date')} }}"
    with pytest.raises(
        InvalidSchema, match=r'"google.type.Date" is not defined: import "google/type/date.proto" \(line 2'
    ):
        proto3(text, settings=NEW)
    assert proto3(text, settings=ParseSettings(validates=True)).name == "A"


def test_public_imports_are_followed_and_others_are_not() -> None:
    base = ("base.proto", 'syntax = "proto3"; message B {}')
    text = 'import "middle.proto"; message A { B b = 1; }'
    public = ("middle.proto", 'syntax = "proto3"; import public "base.proto";')
    assert proto3(text, base, public, settings=NEW).name == "A"
    with pytest.raises(InvalidSchema, match=r'"B" is not defined: import "base\.proto"'):
        proto3(text, base, (public[0], public[1].replace("public ", "")), settings=NEW)


def test_a_broken_reference_is_named() -> None:
    with pytest.raises(InvalidSchema, match=r"reference other\.proto: .* line 1, column 9"):
        proto3("message A {}", ("other.proto", "message {}"), settings=NEW)
