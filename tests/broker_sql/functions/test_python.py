"""Functions that users write in Python."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from broker_sql.errors import AnalysisError
from broker_sql.functions.python import python_function
from tests.broker_sql.functions.support import REGISTRY, kind, scalar

MODULE = """
    import re
    WORD = re.compile(r"\\w+")

    def words(text):
        return WORD.findall(text)
"""


def called(returns: str, text: str, *values: Any, types: tuple[str, ...] = ("INT",)) -> Any:
    parameters = [(name, kind(each)) for name, each in zip("abc", types, strict=False)]
    registry = REGISTRY.extended([python_function("words", parameters, kind(returns), text)])
    return scalar("WORDS", types, *values, registry=registry)


@pytest.mark.parametrize(
    ("returns", "text", "value", "wanted"),
    [
        ("INT", "a * 2", 21, 42),
        ("INT", "return a * 2", 21, 42),
        ("INT", "if a is None:\n    return -1\nreturn a", None, -1),
        ("INT", "None", 1, None),
        ("INT", "a and (\n    a + 1\n)", 1, 2),
        ("DOUBLE", "a", 1, 1.0),
        ("STRING", "f'{a:03}'  # with leading zeros", 7, "007"),
        ("DECIMAL(4, 2)", "a", 5, Decimal("5.00")),
        ("DECIMAL(4, 2)", "from decimal import Decimal\nreturn Decimal('0.125')", 5, Decimal("0.13")),
        ("ARRAY<BIGINT>", "(a, None)", 5, [5, None]),
        ("MAP<STRING, INT>", "{'a': a}", 5, {"a": 5}),
        ("STRUCT<X INT, Y STRING>", "{'X': a}", 5, {"X": 5, "Y": None}),
        ("BYTES", "bytes([a])", 5, b"\x05"),
    ],
)
def test_values(returns: str, text: str, value: Any, wanted: Any) -> None:
    found = called(returns, text, value)
    assert found == wanted
    assert type(found) is type(wanted)


def test_a_module_keeps_its_names() -> None:
    assert called("ARRAY<STRING>", MODULE, "one two", types=("STRING",)) == ["one", "two"]


@pytest.mark.parametrize(
    ("returns", "text", "error"),
    [
        ("INT", "'x'", r"words returned 'x' \(str\): INTEGER is expected"),
        ("INT", "2 ** 31", r"returned 2147483648 \(int\)"),
        ("INT", "True", r"returned True \(bool\)"),
        ("STRING", "a", r"returned 1 \(int\): STRING"),
        ("DECIMAL(3, 2)", "10", r"returned 10 \(int\)"),
        ("DECIMAL(3, 2)", "1.5", r"returned 1.5 \(float\)"),
        ("ARRAY<INT>", "[a, 'b']", r"returned 'b' \(str\): ARRAY<INTEGER>"),
        ("STRUCT<X INT>", "{'Z': 1}", r"returned \{'Z': 1\}"),
        ("STRING", "b'x' * 1000", r"\.\.\. \(bytes\)"),
    ],
)
def test_wrong_results_are_errors_of_the_record(returns: str, text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        called(returns, text, 1)


def test_exceptions_are_errors_of_the_record() -> None:
    with pytest.raises(ZeroDivisionError):
        called("INT", "a // 0", 1)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("return a +", r"function words: invalid syntax: 'return a \+'"),
        ("def other(a):\n    return a", "the text defines other, and not words"),
        ("import nothing_of_that_name\ndef words(a):\n    return a", "ModuleNotFoundError"),
    ],
)
def test_texts_that_are_refused(text: str, error: str) -> None:
    with pytest.raises(AnalysisError, match=error):
        called("INT", text, 1)


def test_arguments_need_names_of_python() -> None:
    for name in ("2x", "class", "a b"):
        with pytest.raises(AnalysisError, match="a name of Python"):
            python_function("f", [(name, kind("INT"))], kind("INT"), "1")
    with pytest.raises(AnalysisError, match="only once"):
        python_function("f", [("x", kind("INT")), ("x", kind("INT"))], kind("INT"), "1")


def test_description_and_overloads() -> None:
    made = python_function("twice", [("n", kind("DOUBLE"))], kind("DOUBLE"), "n * 2", author="me")
    registry = REGISTRY.extended([made])
    found = registry.describe("TWICE")
    assert (found.kind, found.category, found.author) == ("SCALAR", "PYTHON", "me")
    assert found.signatures[0].return_type == "DOUBLE"
    assert scalar("twice", ["DOUBLE"], 1.5, registry=registry) == 3.0
    assert registry.scalar("twice", [kind("INT")]).parameters == (kind("DOUBLE"),)
