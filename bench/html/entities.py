"""What has a colour in a report: each target of each document, the same one in every chart."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from bench.result import Document, Run


@dataclass(frozen=True)
class Entity:
    """One target of one document, with its runs that did not fail."""

    index: int  # decides the colour
    name: str
    target: str
    document: Document
    runs: tuple[Run, ...]

    @property
    def labels(self) -> list[str]:
        """In the order they were measured."""
        return list(dict.fromkeys(run.label for run in self.runs))

    def labelled(self, label: str) -> list[Run]:
        """The repeats of one label."""
        return [run for run in self.runs if run.label == label]


def entities(documents: Sequence[tuple[str, Document]]) -> list[Entity]:
    """Of documents with their names, which are shown only if there are several documents."""
    found: list[Entity] = []
    for name, document in documents:
        for target in document.targets:
            runs = tuple(run for run in document.runs if run.target == target and not run.failed)
            shown = f"{name}: {target}" if len(documents) > 1 else target
            found.append(Entity(len(found), shown, target, document, runs))
    return found


def labels(found: Sequence[Entity]) -> list[str]:
    """Of all entities, in the order they were measured."""
    return list(dict.fromkeys(label for entity in found for label in entity.labels))


def hover(text: str) -> str:
    """A text for plotly, which would else take tags and %{...} in it for its own."""
    return escape(text).replace("%{", "%&#123;")
