"""Write docs/streams-settings.md from broker_streams/settings.tsv: `python tools/streams_doc.py [--check]`."""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from broker_cy.client.security import NAMES  # noqa: E402
from broker_streams.settings import Scope, Setting, Support, table  # noqa: E402

PAGE = ROOT / "docs" / "streams-settings.md"
WIDTH = 120
HEAD = """\
# Settings of stream processing

Use this page to check the settings of an application of [stream processing](streams.md): they are those of Kafka
Streams 4.3.1, of the clients below it, and of Confluent's serdes, under their names. They stand in `config` of the
application, in a file of `NAME=VALUE` lines that `--config FILE` names, and in `-X NAME=VALUE`; the later ones win.

An unknown setting, and one without an effect here, is named in a warning. A wrong value, or a setting that is refused,
ends the application with a message that names it. Values may be variables of config providers, `${NAME:PATH:KEY}`. This
page is generated from `broker_streams/settings.tsv` by `tools/streams_doc.py`; a test keeps it up to date.

| settings of | given as |
|---|---|
| the application, all its clients, serdes | `NAME` |
| clients that read inputs | `consumer.NAME`, and `main.consumer.NAME`, which wins |
| clients that write | `producer.NAME` |
| clients that administrate | `admin.NAME` |
| internal topics | `topic.NAME`, with the names of settings of topics |
| the process, for the assignment of tasks | `client.tag.NAME` |
"""
TITLES = {
    Scope.STREAMS: "The application",
    Scope.CONSUMER: "Consumers",
    Scope.PRODUCER: "Producers",
    Scope.ADMIN: "Admin clients",
    Scope.REGISTRY: "Serdes with a schema registry",
}


def wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def shown_default(setting: Setting) -> str:
    if setting.required:
        return "required"
    text = setting.default_text
    return f"`{cell(text.rpartition('.')[2] if text.startswith(('org.', 'io.')) else text)}`" if text else ""


def section(scope: Scope) -> str:
    """Return the settings of a scope with an effect, and the names of the others with the reasons."""
    rows = [setting for (each, _), setting in table().items() if each is scope]
    found = [f"\n## {TITLES[scope]}\n"]
    effective = [each for each in rows if each.support is Support.EFFECTIVE]
    if effective:
        found.append("\n| setting | type | default | meaning |\n|---|---|---|---|\n")
    for each in effective:
        meaning = cell(each.documentation or "")
        found.append(f"| `{each.name}` | {each.type.name} | {shown_default(each)} | {meaning} |\n")
    for support, text in ((Support.NO_EFFECT, "Without an effect"), (Support.REFUSED, "Refused")):
        by_reason: dict[str, list[str]] = {}
        for each in rows:
            if each.support is support:
                by_reason.setdefault(each.documentation or "", []).append(f"`{each.name}`")
        if by_reason:
            found.append(f"\n{text}:\n\n")
            for reason, names in by_reason.items():
                listed = "- " + ", ".join(sorted(names)) + (f": {reason}" if reason else "")
                found.append(
                    textwrap.fill(listed, WIDTH, break_long_words=False, break_on_hyphens=False, subsequent_indent="  ")
                    + "\n"
                )
    return "".join(found)


def page() -> str:
    names = ", ".join(f"`{name}`" for name in NAMES)
    connections = (
        "\n## Connections\n\n"
        + wrapped("`bootstrap.servers`, and the settings of security ([security.md](security.md)); others are refused:")
        + "\n"
        + wrapped(f"{names}.")
    )
    return HEAD + "".join(map(section, TITLES)) + connections


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 if the page differs")
    is_check = parser.parse_args().check
    if not is_check:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") != page():
        print("docs/streams-settings.md is out of date: run python tools/streams_doc.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
