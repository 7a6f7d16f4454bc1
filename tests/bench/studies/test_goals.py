"""The options of the programs that measure one component."""

from __future__ import annotations

import argparse

import pytest

from bench.studies.goals import check, parser

PARTS = ("steady", "rebalance")


def parsed(*arguments: str) -> argparse.Namespace:
    made = parser("bench.studies.some", None, PARTS)
    made.add_argument("--members", type=int, default=1)
    given = made.parse_args(arguments)
    check(made, given, PARTS, ("members",))
    return given


def test_the_help_names_the_figures() -> None:
    """If this fails, a user has to read the source to measure one figure."""
    assert "(steady, rebalance; default: all)" in " ".join(
        parser("bench.studies.some", None, PARTS).format_help().split()
    )


def test_some_figures_or_all() -> None:
    """If this fails, one figure takes as long as all of them."""
    assert parsed().only == ["steady", "rebalance"]
    assert parsed("--only", "rebalance").only == ["rebalance"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--only", "stedy"), "--only stedy: unknown (allowed: steady, rebalance)"),
        (("--only", "steady,"), "--only : unknown (allowed: steady, rebalance)"),
        (("--members", "0"), "--members 0: a number from 1 on is expected"),
    ],
)
def test_wrong_values_are_named(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, a misspelt figure measures for minutes, and is not among the results."""
    with pytest.raises(SystemExit) as ended:
        parsed(*arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
