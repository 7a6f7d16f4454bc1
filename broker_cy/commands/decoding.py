"""Keys and values of records as `consume` prints them: decoded by a registry, as they are, or as hexadecimal digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

import click

from broker_cy.client import options
from broker_cy.client.clusters import ClusterEntry
from broker_cy.client.decoded import Decoder, Part, Seen, undecoded
from broker_cy.reporting.foreign_text import escaped
from broker_cy.wire.records import Record

REASONS_SHOWN: Final = 10
"""Different reasons that are printed, each once."""


class Form(Enum):
    """How a key or value is printed."""

    AUTO = "auto"
    STRING = "string"
    HEX = "hex"


def form_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the registry, and of the forms of keys and values."""
    for side in ("value", "key"):
        function = click.option(
            f"--{side}-format",
            f"{side}_form",
            type=click.Choice([each.value for each in Form]),
            default=Form.AUTO.value,
            show_default=True,
            help=f"How {side}s are printed. auto: as JSON if they name a schema and there is a registry, else as they "
            "are; string: as they are; hex: hexadecimal digits.",
        )(function)
    return options.click_options(options.OF_REGISTRY)(function)


class Looks:
    """Turns the records of a topic into what is printed of them, and reports what could not be decoded."""

    def __init__(self, decoder: Decoder | None, key_form: Form, value_form: Form) -> None:
        self._decoder = decoder
        self._key_form, self._value_form = key_form, value_form
        self._told: set[str] = set()
        self._notice = ""
        self.failed = 0

    async def seen(self, topic: str, records: Sequence[Record]) -> list[Seen]:
        if self._decoder is None:
            found = [undecoded(record) for record in records]
        else:
            found = await self._decoder.seen(topic, records)
            if self._decoder.notice != self._notice:
                self._notice = self._decoder.notice
                if self._notice:
                    click.echo(f"broker-cy: the registry does not answer: {escaped(self._notice)}", err=True)
        if Form.HEX in (self._key_form, self._value_form):
            found = [self._in_hex(each) for each in found]
        return found

    def _in_hex(self, seen: Seen) -> Seen:
        key = _hex(seen.key) if self._key_form is Form.HEX else seen.key
        value = _hex(seen.value) if self._value_form is Form.HEX else seen.value
        record = seen.record
        return Seen(Record(record.offset, record.timestamp, key.data, value.data, record.headers), key, value)

    def tell(self, place: object, seen: Seen) -> None:
        """Report what of a printed record could not be decoded: each reason once."""
        for side, part in (("key", seen.key), ("value", seen.value)):
            if not part.problem:
                continue
            self.failed += 1
            if not part.is_final or part.problem in self._told:
                # The notice says that the registry does not answer.
                continue
            if len(self._told) < REASONS_SHOWN:
                where = f"{place} offset {seen.record.offset}"
                click.echo(f"broker-cy: {where}: {side} not decoded: {escaped(part.problem)}", err=True)
                self._told.add(part.problem)

    def end(self) -> int:
        """Report how many keys and values were not decoded; returns the exit code."""
        if self.failed:
            click.echo(f"broker-cy: {self.failed:,} keys and values were not decoded", err=True)
        return 1 if self.failed else 0


def _hex(part: Part) -> Part:
    return part if part.data is None else Part(part.data.hex().encode())


def looks_of(cluster: ClusterEntry, key_form: str, value_form: str) -> Looks | None:
    """Return the forms of the options; None if records are printed as they are. Raises ClientError."""
    key, value = Form(key_form), Form(value_form)
    decoder: Decoder | None = None
    if Form.AUTO in (key, value) and cluster.has_registry:
        from broker_registry.serdes.tools import decoder_of

        decoder = decoder_of(cluster, keys=key is Form.AUTO, values=value is Form.AUTO)
    return Looks(decoder, key, value) if decoder is not None or Form.HEX in (key, value) else None
