"""The entities of a report: each target of each document, with the same colour in every chart."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.report.result import Document, Run


@dataclass(frozen=True)
class Entity:
    """One target of one document, with its runs that did not fail."""

    index: int  # determines the colour
    name: str
    target: str
    document: Document
    runs: tuple[Run, ...]

    @property
    def labels(self) -> list[str]:
        """The labels of its runs, in the order in which they were measured."""
        return list(dict.fromkeys(run.label for run in self.runs))

    def labelled(self, label: str) -> list[Run]:
        """Return the repeats of one label."""
        return [run for run in self.runs if run.label == label]


def entities(documents: Sequence[tuple[str, Document]]) -> list[Entity]:
    """Return the entities of documents; the documents' names are only shown if there are several."""
    found: list[Entity] = []
    for name, document in documents:
        for target in document.targets:
            runs = tuple(run for run in document.runs if run.target == target and not run.failed)
            shown = f"{name}: {target}" if len(documents) > 1 else target
            found.append(Entity(len(found), shown, target, document, runs))
    return found


def labels(found: Sequence[Entity]) -> list[str]:
    """Return the labels of all entities, in the order in which they were measured."""
    return list(dict.fromkeys(label for entity in found for label in entity.labels))
