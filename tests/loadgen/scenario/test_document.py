"""docs/loadgen-scenarios.md lists every key with its default and allowed values, and its example is a valid
scenario.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loadgen.scenario.fields import FIELD_KINDS
from loadgen.scenario.model import ACKS, CODECS, ENGINES
from loadgen.scenario.options import ENGINE_OPTIONS, KINDS, Option
from loadgen.scenario.overrides import OVERRIDES
from loadgen.scenario.rates import PROFILES
from loadgen.scenario.thresholds import OPERATION_BOUNDS, RUN_BOUNDS, Bound
from loadgen.scenario.toml_file import builtin_names, read_scenario

DOCUMENT = Path(__file__).parents[3] / "docs" / "loadgen-scenarios.md"


def option_row(option: Option) -> str:
    default = option.default
    if option.type == "duration":
        default = f"{default:g} s"
    elif isinstance(default, bool):
        default = str(default).lower()
    elif isinstance(default, list):
        default = ", ".join(default)
    return f"| `{option.name}` | {option.help} | {option.type}: {option.allowed} | {default} |"


def bound_row(key: str, bound: Bound) -> str:
    return f"| `{key}` | {bound.help} |"


def rows() -> list[str]:
    """Return the rows that follow from the data of the program."""
    found = []
    for kind in KINDS.values():
        fields = f" ({', '.join(f'`{name}`' for name in kind.fields)})" if kind.fields else ""
        found.append(f"| `{kind.name}` | {kind.help}{fields} | {kind.rate} | {', '.join(kind.operations)} |")
        found += [option_row(option) for option in kind.options]
    found += [option_row(option) for options in ENGINE_OPTIONS.values() for option in options]
    found += [bound_row(key, bound) for key, bound in (*OPERATION_BOUNDS.items(), *RUN_BOUNDS.items())]
    found += [f"| `--{each.name} {each.metavar}` | {each.help} |".replace("|f", "\\|f") for each in OVERRIDES.values()]
    return found


@pytest.mark.parametrize("row", sorted(set(rows())))
def test_each_row_is_in_the_document(row: str) -> None:
    """If this fails, the reference describes a key that does not exist, shows a wrong default, or leaves a key out."""
    assert row in DOCUMENT.read_text().splitlines()


@pytest.mark.parametrize("name", [*ENGINES, *CODECS, *ACKS, *FIELD_KINDS, *PROFILES, *builtin_names()])
def test_each_name_is_in_the_document(name: str) -> None:
    """If this fails, an engine, codec, profile, kind of field or scenario is undocumented."""
    assert re.search(rf"[`\"]{re.escape(name)}[`\"]", DOCUMENT.read_text())


def test_the_example_is_a_scenario(tmp_path: Path) -> None:
    """If this fails, a user who starts with the example of the reference gets an error."""
    (example,) = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (tmp_path / "orders.toml").write_text(example)
    assert len(read_scenario(tmp_path / "orders.toml").users) == 3
