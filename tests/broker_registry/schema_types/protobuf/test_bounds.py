"""Bounds, and texts that are none: each ends in InvalidSchema, so that no client ends a worker or the registry."""

from __future__ import annotations

import base64
import random

import pytest

from broker_registry.schema_types.base import TEXT_BYTES_MAX, InvalidSchema, ParseSettings
from broker_registry.schema_types.protobuf import diff, lexer, parse
from broker_registry.schema_types.protobuf.cursor import NESTING_MAX
from broker_registry.schema_types.protobuf.options import OPTIONS_MAX, VALUES_DEEP_MAX
from tests.broker_registry.schema_types.protobuf import corpus, malformed
from tests.broker_registry.schema_types.protobuf.schemas import schema
from tests.support.tiers import by_tier

STORED, NEW = ParseSettings(), ParseSettings(is_new=True, normalizes=True)
TEXTS = by_tier(600, 20_000)


def message(fields: str) -> str:
    return f'syntax = "proto3"; message A {{ {fields} }}'


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("message A { int32 a = 1; }", "line 1, column 13: expected required, optional or repeated, found 'int32'"),
        (message("int32 a = 1"), "line 1, column 44: expected ';', found '}'"),
        (message("\n\n  int32 = 1;"), "line 3, column 9: expected a word, found '='"),
        (message("int32 a = x;"), "line 1, column 42: expected an integer, found 'x'"),
        (message("int32 a = 2147483648;"), "line 1, column 42: expected an integer, found '2147483648'"),
        (message("int32 1a = 1;"), "column 38: names of fields do not begin with a digit"),
        (message("required int32 a = 1;"), "column 32: proto3 has no required fields"),
        (message("repeated map<string, int32> a = 1;"), "a map has no label"),
        (message("map<map<string, string>, string> a = 1;"), "a map is no key of a map"),
        (message("string a = 1 [b = 'x];"), "found a string without its closing quote"),
        (message('string a = 1 [b = "\\x"];'), "expected a digit behind \\x"),
        (message("/* never closed"), "column 32: expected a word, found '/', which begins no complete comment"),
        (message("")[:-1], "expected a word, found the end of the text"),
        ('message A {} syntax = "proto3";', "syntax must be the first declaration of a file"),
        ('syntax = "proto4";', "unexpected syntax 'proto4'"),
        ('edition = "2023";', "editions are not supported"),
        ("message A {} enum A { Z = 0; }", "A is already defined in line 1"),
        ("import private 'x.proto';", "expected public, weak or a quoted string, found 'private'"),
        ("service S { message A {} }", "unexpected 'message' in a service"),
        ("nonsense", "line 1, column 1: unexpected 'nonsense'"),
        ("{", "expected a word, found '{'"),
        ("message A { reserved 1 2; }", "expected ',', ';' or 'to', found '2'"),
        ("\ufeffmessage A {}", "line 1, column 1: expected a word"),
    ],
)
def test_an_error_names_line_and_column(text: str, error: str) -> None:
    """The author of a schema finds the place without a compiler."""
    with pytest.raises(InvalidSchema) as caught:
        parse(text, (), STORED)
    assert error in str(caught.value)


def test_any_broken_text_is_an_invalid_schema() -> None:
    """Another exception would be an error 500, or the end of a worker process."""
    source = random.Random(11)
    count_valid = 0
    for index in range(TEXTS):
        text = malformed.mutant(source) if index % 2 else malformed.broken(source)
        try:
            found = parse(text, (), NEW if index % 3 else STORED)
            found.normalized()
            found.formatted("serialized")
            found.formatted("ignore_extensions")
            count_valid += 1
        except InvalidSchema:
            pass
    assert TEXTS // 100 < count_valid < TEXTS


def test_any_broken_descriptor_is_an_invalid_schema() -> None:
    source = random.Random(12)
    whole = [base64.b64decode(corpus.recorded(name, "serialized")) for name in corpus.NAMES]
    count_valid = 0
    for _ in range(TEXTS // 4):
        data = bytearray(source.choice(whole))
        for _ in range(source.choice((1, 2, 4))):
            if data:
                data[source.randrange(len(data))] = source.randrange(256)
        try:
            found = parse(base64.b64encode(data).decode(), (), NEW)
            found.formatted("serialized")
            count_valid += 1
        except InvalidSchema:
            pass
    assert count_valid


@pytest.mark.parametrize(
    "text",
    [
        "message A { " * (NESTING_MAX + 1) + "}" * (NESTING_MAX + 1),
        message("map<string, " * (NESTING_MAX + 1) + "int32" + ">" * (NESTING_MAX + 1) + " a = 1;"),
        "option a = " + "[" * (VALUES_DEEP_MAX + 1),
        "option a = " + "{ a: " * (VALUES_DEEP_MAX + 1),
        "option (a)" + ".b" * (VALUES_DEEP_MAX + 1) + " = 1;",
        "option (a)" + ".(b)" * (VALUES_DEEP_MAX + 1) + " = 1;",
    ],
)
def test_nesting_is_bounded(text: str) -> None:
    """Deeper texts would end in a RecursionError, here or in a reader of the descriptor."""
    with pytest.raises(InvalidSchema, match=r"deeper than|more than"):
        parse(text, (), STORED)


def test_nesting_up_to_the_bound_is_read_printed_compared_and_linked() -> None:
    """A bound that no part of the registry reaches would refuse schemas for nothing."""
    text = 'syntax = "proto3";' + "message A { A a = 1; " * NESTING_MAX + "}" * NESTING_MAX
    found = parse(text, (), NEW)
    assert found.differences(found) == []
    assert parse(found.formatted("serialized"), (), STORED).differences(found) == []
    assert found.decode(found.encode({})) == {}


def test_values_of_options_up_to_the_bound_are_read_and_printed() -> None:
    depth = VALUES_DEEP_MAX - 1
    text = "option (a) = " + "{ a: " * depth + "1" + "}" * depth + "; message A {}"
    found = parse(text, (), NEW)
    assert parse(found.canonical, (), STORED).canonical == found.canonical


def test_a_text_beyond_its_bound_is_refused_before_it_is_read() -> None:
    with pytest.raises(InvalidSchema, match=f"more than {TEXT_BYTES_MAX}"):
        parse(" " * (TEXT_BYTES_MAX + 1), (), STORED)
    with pytest.raises(InvalidSchema, match=f"more than {TEXT_BYTES_MAX}"):
        parse("é" * (TEXT_BYTES_MAX // 2 + 1), (), STORED)


def test_the_number_of_tokens_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """16 MB of semicolons would become a list of 128 MB."""
    monkeypatch.setattr(lexer, "TOKENS_MAX", 100)
    monkeypatch.setattr(lexer, "_COUNTED_ABOVE", 100)
    assert parse(";" * 100, (), STORED).canonical == ""
    with pytest.raises(InvalidSchema, match="more than 100 tokens"):
        parse(";" * 101, (), STORED)
    assert parse("//" + "x" * 1000, (), STORED).canonical == ""


def test_half_of_a_surrogate_pair_is_refused() -> None:
    """JSON may have one in a string; it has no form in UTF-8."""
    with pytest.raises(InvalidSchema, match="half of a surrogate pair at character 18"):
        parse('option a = "text \ud800";', (), STORED)


def test_imports_in_a_circle_are_refused() -> None:
    """Each of the files would wait for the other's descriptor."""
    one = ("one.proto", 'syntax = "proto3"; import "two.proto"; message One { Two two = 1; }')
    two = ("two.proto", 'syntax = "proto3"; import "one.proto"; message Two { One one = 1; }')
    text = 'syntax = "proto3"; import "one.proto"; message A { One one = 1; }'
    with pytest.raises(InvalidSchema, match=r"imports of .* lead back to it"):
        schema(text, one, two, settings=NEW)


def test_a_long_chain_of_imports_is_refused() -> None:
    chained = [(f"{index}", f'syntax = "proto3"; import "{index + 1}";') for index in range(1_500)]
    with pytest.raises(InvalidSchema, match="imports follow each other"):
        schema('syntax = "proto3"; import "0"; message A {}', *chained, settings=NEW)


@pytest.mark.parametrize(
    "text",
    [
        "option (a).b = 1; " * (OPTIONS_MAX + 1),
        "message A { " + "option (a).b = 1; " * (OPTIONS_MAX + 1) + "}",
        message("string a = 1 [" + ", ".join(["(a).b = 1"] * (OPTIONS_MAX + 1)) + "];"),
    ],
)
def test_the_options_of_an_element_are_bounded(text: str) -> None:
    """Merging a hundred thousand of one name would take minutes."""
    with pytest.raises(InvalidSchema, match=f"more than {OPTIONS_MAX} options"):
        parse(text, (), STORED)


def test_many_values_ranges_and_fields_take_no_square_of_their_number() -> None:
    """With the square, the larger count runs into the time limit of tests."""
    count = by_tier(5_000, 100_000)
    values = "x: 1 " * count
    listed = "y: [" + ", ".join(map(str, range(count))) + "]"
    fields = " ".join(f"int32 f{index} = {index};" for index in range(20_000, 23_000))
    ranges = ", ".join(f"{index} to {index + 1}" for index in range(30_000, 30_000 + 2 * count, 2))
    text = (
        f"option (a) = {{ {values} {listed} }}; option (a) = {{ {listed} }}; {message(f'{fields} reserved {ranges};')}"
    )
    text = text.replace('syntax = "proto3"; ', "")
    assert parse(f'syntax = "proto3"; {text}', (), NEW).name == "A"


@pytest.mark.parametrize("kind", ["int32", "string"])
def test_messages_that_all_name_each_other_are_compared(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths through such a file are too many to follow each; the verdict must be that of following them all."""
    monkeypatch.setattr(diff, "REFERENCED_MAX", 200)
    old, new = (
        schema('syntax = "proto3"; import "lib"; message A { lib.M0 a = 1; }', ("lib", all_to_all(12, each)))
        for each in ("int32", kind)
    )
    found = new.differences(old)
    assert any(each.breaks for each in found) == (kind == "string")
    assert len(found) < 5_000


@pytest.mark.parametrize("kind", ["int32", "string"])
def test_a_long_chain_of_messages_is_compared_to_its_end(kind: str) -> None:
    """A change in the last message breaks readers of the first one, and is no RecursionError."""
    old, new = (
        schema('syntax = "proto3"; import "lib"; message A { lib.M0 a = 1; }', ("lib", chain(1000, each)))
        for each in ("int32", kind)
    )
    kinds = {each.kind for each in new.differences(old)}
    assert ("FIELD_SCALAR_KIND_CHANGED" in kinds) == (kind == "string")


def all_to_all(count: int, last: str) -> str:
    fields = " ".join(f"M{index} f{index} = {index + 1};" for index in range(count))
    messages = [f"message M{index} {{ {fields} }}" for index in range(count - 1)]
    return f'syntax = "proto3"; package lib; {" ".join(messages)} message M{count - 1} {{ {fields} {last} x = 99; }}'


def chain(count: int, last: str) -> str:
    messages = [f"message M{index} {{ M{index + 1} next = 1; }}" for index in range(count - 1)]
    return f'syntax = "proto3"; package lib; {" ".join(messages)} message M{count - 1} {{ {last} x = 99; }}'
