"""Write docs/events.md from the classes of events and samples: `python tools/events_doc.py [--check]`."""

from __future__ import annotations

import argparse
import inspect
import sys
import textwrap
from dataclasses import fields
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PAGE = ROOT / "docs" / "events.md"
WIDTH = 120
HEAD = """\
# Events and samples

Use this page to read the two topics in which a cluster describes itself: its events, and a sample of each broker's
metrics every second. The commands show them as text ([cli.md](cli.md#events-and-metrics)):

    broker-cy events --follow
    broker-cy metrics --watch

Both topics have one partition. Any Kafka consumer can read them; no client can write to them. In Python,
`broker_cy.metrics.events.decode` and `broker_cy.metrics.sample.decode` return typed objects. This page is generated
from `broker_cy/metrics/events.py` and `broker_cy/metrics/sample.py` by `tools/events_doc.py`; a test keeps it up to
date.

| topic | contents of a record | retention | turned off by |
|---|---|---|---|
| `__cluster_events` | an event | 30 days | `brokercy.events.enable=false` |
| `__broker_metrics` | a sample of a broker's metrics, each second | 7 days | `brokercy.metrics.sample.interval.ms=0` |

## `__cluster_events`

"""


def table(kind: type) -> str:
    """Return a table of the fields of one class."""
    rows = [f"| `{each.name}` | {text_of(each.type)} |\n" for each in fields(kind)]
    return "| field | type |\n|---|---|\n" + "".join(rows) + "\n"


def text_of(annotation: object) -> str:
    """Return the text of a type."""
    return str(annotation).replace("|", "or")


def words(text: str | None) -> str:
    """Return a docstring as one paragraph, wrapped like the other documents."""
    return textwrap.fill(" ".join((text or "").split()), WIDTH, break_long_words=False, break_on_hyphens=False)


def parts_of(module: ModuleType, leave_out: set[str]) -> list[type]:
    """Return the dataclasses of a module in the order of its source."""
    found = [
        kind
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__ == module.__name__ and kind.__name__ not in leave_out
    ]
    return sorted(found, key=lambda kind: inspect.getsourcelines(kind)[1])


def page() -> str:
    """Return the whole document."""
    from broker_cy.metrics import events, sample

    text = HEAD + (events.__doc__ or "").partition("\n\n")[2] + "\n"
    titles = {kind: f"### `{kind.TYPE}`, version {kind.VERSION}" for kind in events.EVENTS.values()}
    for kind in parts_of(events, {"Event", "Stamped"}):
        title = titles.get(kind) or f"### Part: {kind.__name__}"
        own = kind.__doc__ if not (kind.__doc__ or "").startswith(kind.__name__ + "(") else ""
        text += f"{title}\n\n" + (f"{words(own)}\n\n" if own else "") + table(kind)
    text += "## `__broker_metrics`\n\n" + (sample.__doc__ or "").partition("\n\n")[2] + "\n"
    for kind in reversed(parts_of(sample, set())):
        own = kind.__doc__ if not (kind.__doc__ or "").startswith(kind.__name__ + "(") else ""
        text += f"### {kind.__name__}\n\n" + (f"{words(own)}\n\n" if own else "") + table(kind)
    return text.rstrip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only check whether the page is up to date")
    arguments = parser.parse_args()
    text = page()
    if arguments.check:
        if not PAGE.exists() or PAGE.read_text() != text:
            print("docs/events.md is out of date: run python tools/events_doc.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
