"""Numbers and flags in JSON, as Jackson reads them."""

from __future__ import annotations

import pytest

from broker_registry.json_types import InvalidObject, as_flag, as_number, as_text, whole_number


@pytest.mark.parametrize(
    ("value", "number"),
    [(None, None), ("", None), (5, 5), ("5", 5), (" -5 ", -5), ("+5", 5), (1.9, 1), (2**31 - 1, 2**31 - 1)],
)
def test_numbers(value: object, number: int | None) -> None:
    """If this fails, an id or a version of a request is refused that Confluent's registry accepts."""
    assert as_number(value, "id") == number


@pytest.mark.parametrize("value", [True, "x", "1_0", "+-5", "1.5", 2**31, -(2**31) - 1, 1e30, "9" * 5_000, [], {}])
def test_other_values_are_no_numbers(value: object) -> None:
    """If this fails, a request with a mistake gets another id than the one that it names, or an internal error."""
    with pytest.raises(InvalidObject, match="id is"):
        as_number(value, "id")


def test_numbers_of_paths_have_no_other_signs() -> None:
    """If this fails, `/versions/1_0` is version 10."""
    assert [whole_number(text) for text in ("10", "1_0", "0x1", "", "-", "²")] == [10, None, None, None, None, None]


def test_flags_and_texts() -> None:
    """If this fails, a setting that a request names is taken for another one."""
    assert [as_flag(value, "f") for value in (None, "", True, "TRUE", " false", 0, 7)] == [
        *(None, None, True, True, False, False, True)
    ]
    assert [as_text(value, "t") for value in (None, "", "x", 1, 1.5, False)] == [None, "", "x", "1", "1.5", "false"]
    bad: tuple[object, ...] = ("x", 1.5, [])
    for value in bad:
        with pytest.raises(InvalidObject, match="true or false"):
            as_flag(value, "f")
