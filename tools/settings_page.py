"""Pages of docs that are made from tables of settings: their common sections, and their command line."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path

from broker_cy.client.security import NAMES
from broker_cy.core.config_def.scoped import ScopedSetting, Support

WIDTH = 120
# The settings that a page lists by name only.
OTHERS = ((Support.NO_EFFECT, "Without an effect"), (Support.REFUSED, "Refused"))


def wrapped(text: str, indent: str = "") -> str:
    """Return the text in lines of the width of a page; `indent` precedes all lines but the first."""
    lines = textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False, subsequent_indent=indent)
    return lines + "\n"


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def rows_of(settings: Iterable[ScopedSetting], shown: Callable[[str], str] = str) -> str:
    """Return a table of settings with an effect. `shown` shortens the text of a default."""
    found = ["\n| setting | type | default | meaning |\n|---|---|---|---|\n"]
    for each in settings:
        text = each.default_text
        default = "required" if each.required else f"`{cell(shown(text))}`" if text else ""
        found.append(f"| `{each.name}` | {each.type.name} | {default} | {cell(each.documentation or '')} |\n")
    return "".join(found)


def connections() -> str:
    """Return the section about the settings of connections."""
    names = ", ".join(f"`{name}`" for name in NAMES)
    text = "`bootstrap.servers`, and the settings of security ([security.md](security.md)); others are refused:"
    return "\n## Connections\n\n" + wrapped(text) + "\n" + wrapped(f"{names}.")


def main(page: Path, text: Callable[[], str], about: str | None) -> int:
    """Write the page, or compare it (--check). Returns the exit code."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 if the page differs")
    if not parser.parse_args().check:
        page.write_text(text(), encoding="utf-8")
        return 0
    if page.read_text(encoding="utf-8") != text():
        print(f"docs/{page.name} is out of date: run python tools/{Path(sys.argv[0]).name}", file=sys.stderr)
        return 1
    return 0
