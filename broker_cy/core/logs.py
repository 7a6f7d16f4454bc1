"""Structured logs: one line per event, with `key=value` fields, on stderr.

A log call gives a fixed event text and its facts: `LOGGER.info("log recovered", extra=facts(path=path, bytes=n))`.
"""

from __future__ import annotations

import json
import logging
import sys
import time

from broker_cy.core.classes import NamedTuple

PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@+,[]*%")


class Event(NamedTuple):
    """A log event that the caller logs later, with its own logger."""

    text: str
    fields: dict[str, object]

    def log(self, logger: logging.Logger, level: int) -> None:
        logger.log(level, self.text, extra={"fields": self.fields})


def facts(**fields: object) -> dict[str, object]:
    """The fields of a log line, as `extra` of a log call."""
    return {"fields": fields}


def value_text(value: object) -> str:
    """The text of a value after `key=`: quoted as JSON if it has spaces, quotes or control characters."""
    text = str(value)
    if text and PLAIN.issuperset(text):
        return text
    return json.dumps(text, ensure_ascii=False)


class LineFormatter(logging.Formatter):
    """time level logger event, then the fields; a traceback is one quoted field, so that an event stays one line."""

    def __init__(self, shard: int | None = None) -> None:
        """`shard` is the last field of each line, if this process is one of several under a parent."""
        super().__init__()
        self._last = [] if shard is None else [f"shard={shard}"]

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        parts = [
            f"time={seconds}.{int(record.msecs):03d}Z",
            f"level={record.levelname.lower()}",
            f"logger={record.name}",
            f"event={value_text(record.getMessage())}",
        ]
        fields = getattr(record, "fields", None)
        if isinstance(fields, dict):
            parts += [f"{name}={value_text(value)}" for name, value in fields.items()]
        if record.exc_info and record.exc_info[1] is not None:
            parts.append(f"traceback={value_text(self.formatException(record.exc_info))}")
        return " ".join(parts + self._last)


def configure(level: int = logging.INFO, shard: int | None = None) -> None:
    """Send everything of `level` and above to stderr; `shard` is the number of this process, if it is a shard."""
    out = logging.StreamHandler(sys.stderr)
    out.setFormatter(LineFormatter(shard))
    root = logging.getLogger()
    root.handlers[:] = [out]
    root.setLevel(level)
