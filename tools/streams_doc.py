"""Write docs/streams-settings.md from broker_streams/settings.tsv: `python tools/streams_doc.py [--check]`."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from broker_cy.core.config_def.scoped import Support  # noqa: E402
from broker_streams.settings import Scope, table  # noqa: E402
from tools.settings_page import OTHERS, connections, main, rows_of, wrapped  # noqa: E402

PAGE = ROOT / "docs" / "streams-settings.md"
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


def short(default: str) -> str:
    """Return the name of a class without its package."""
    return default.rpartition(".")[2] if default.startswith(("org.", "io.")) else default


def section(scope: Scope) -> str:
    """Return the settings of a scope with an effect, and the names of the others with the reasons."""
    rows = [setting for (each, _), setting in table().items() if each is scope]
    found = [f"\n## {TITLES[scope]}\n"]
    effective = [each for each in rows if each.support is Support.EFFECTIVE]
    if effective:
        found.append(rows_of(effective, short))
    for support, text in OTHERS:
        by_reason: dict[str, list[str]] = {}
        for each in rows:
            if each.support is support:
                by_reason.setdefault(each.documentation or "", []).append(f"`{each.name}`")
        if by_reason:
            found.append(f"\n{text}:\n\n")
            for reason, names in by_reason.items():
                listed = "- " + ", ".join(sorted(names)) + (f": {reason}" if reason else "")
                found.append(wrapped(listed, "  "))
    return "".join(found)


def page() -> str:
    return HEAD + "".join(map(section, TITLES)) + connections()


if __name__ == "__main__":
    raise SystemExit(main(PAGE, page, __doc__))
