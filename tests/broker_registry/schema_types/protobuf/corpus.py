"""The corpus: texts with what Confluent's registry stores for them, in files beside them.

x.proto        the text
x.canonical    its canonical text          x.normalized  its normalized text
x.plain        without extensions          x.serialized  its descriptor in base64
"""

from __future__ import annotations

from pathlib import Path

DIRECTORY = Path(__file__).parent / "corpus"
SUFFIXES = {
    "canonical": ".canonical",
    "normalized": ".normalized",
    "ignore_extensions": ".plain",
    "serialized": ".serialized",
}
NAMES = sorted(each.stem for each in DIRECTORY.glob("*.proto"))


def text_of(name: str) -> str:
    return (DIRECTORY / f"{name}.proto").read_text()


def recorded(name: str, form: str) -> str:
    return (DIRECTORY / f"{name}{SUFFIXES[form]}").read_text()


def record(name: str, form: str, text: str) -> None:
    (DIRECTORY / f"{name}{SUFFIXES[form]}").write_text(text)
