"""Names in files of real clusters that this broker does not have as settings, and why some settings are refused.

The table `foreign_configs.tsv` has a row for each name, or for all names with a prefix (`confluent.*`):

- `other`: a setting of another program, such as a plug-in; it is reported together with the others of its row;
- `removed`: a setting of an older Kafka; `text` names its replacement;
- `refused`: without it, security, policies, addresses or data would differ from the file; `text` is the reason and the
  remedy. If the setting in `unless` is in the file (`name`, or `name=value`), it has no such effect.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cache
from typing import Final

from broker_cy.config.authorizer import SETTINGS as AUTHORIZER_SETTINGS
from broker_cy.config.definitions import BROKER, BROKER_QUOTAS, TOPIC_SYNONYMS, Support, rows_of
from broker_cy.core.classes import NamedTuple

# A name that is at least this similar to a known one is a typing error; `difflib`'s ratio.
NEAR: Final = 0.85
# A name that is at least this similar is worth a question.
SIMILAR: Final = 0.75
_SEPARATORS: Final = re.compile(r"[._-]")


class Class(Enum):
    OTHER = "other"
    REMOVED = "removed"
    REFUSED = "refused"


class Row(NamedTuple):
    """`name` ends with `*` if it stands for all names that begin with the rest."""

    name: str
    kind: Class
    unless: str
    text: str

    def is_refused(self, properties: Mapping[str, str]) -> bool:
        """Whether the setting is refused beside these."""
        if self.kind is not Class.REFUSED:
            return False
        name, equals, value = self.unless.partition("=")
        text = properties.get(name) if name else None
        return text is None or (bool(equals) and text.strip().lower() != value)


ROWS: Final = {
    row["name"]: Row(row["name"], Class(row["class"]), row["unless"], row["text"])
    for row in rows_of("foreign_configs.tsv")
}
# The longest prefix counts.
_PREFIXES: Final = sorted((name[:-1] for name in ROWS if name.endswith("*")), key=len, reverse=True)


def row_of(name: str) -> Row | None:
    """Return the row of a name, or of its longest known prefix; None for an unknown name."""
    return ROWS.get(name) or row_of_prefix(name)


def row_of_prefix(name: str) -> Row | None:
    """Return the row of the longest known prefix of a name; None without one."""
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), None)
    return None if prefix is None else ROWS[f"{prefix}*"]


@cache
def _known() -> dict[str, tuple[str, ...]]:
    """The names that can be mistyped, each with its sorted words."""
    refused = (row.name for row in ROWS.values() if row.kind is Class.REFUSED)
    names = (*BROKER, *BROKER_QUOTAS, *AUTHORIZER_SETTINGS, *refused)
    return {name: _words(name) for name in names if not name.endswith("*")}


def _words(name: str) -> tuple[str, ...]:
    return tuple(sorted(_SEPARATORS.split(name.lower())))


class Meant(NamedTuple):
    """The setting that an unknown name was probably meant to be. `is_missed`: the setting would have had an effect, so
    the name is refused, as in the check before a deployment.
    """

    name: str
    advice: str
    is_missed: bool


def meant(name: str, properties: Mapping[str, str]) -> Meant | None:
    """Return the setting that an unknown name among `properties` was probably meant to be; None if no name is near."""
    for synonym in TOPIC_SYNONYMS.get(name.lower(), ()):
        advice = f"the broker's default for topics is {synonym.name}"
        return Meant(synonym.name, advice, _has_effect(synonym.name, properties))
    words = _words(name)
    near = next((other for other, its_words in _known().items() if words == its_words), None)
    near = near or _closest(name, _known(), NEAR)
    return None if near is None else Meant(near, f"did you mean {near}?", _has_effect(near, properties))


def _has_effect(name: str, properties: Mapping[str, str]) -> bool:
    """Whether a known name, with any value, would have an effect or be refused."""
    if name in BROKER:
        return BROKER[name].support is not Support.INERT
    row = ROWS.get(name)
    # Quotas of brokers have no static level.
    return name in AUTHORIZER_SETTINGS if row is None else row.is_refused(properties)


def is_of_zookeeper(name: str) -> bool:
    """Whether a name is a setting of ZooKeeper, or was probably meant to be one."""
    first, *rest = _SEPARATORS.split(name.lower())
    return bool(rest) and _closest(first, ["zookeeper"], NEAR) is not None


def similar(name: str) -> str | None:
    """Return the known setting that is most similar to an unknown name; None if none is similar."""
    return _closest(name, _known(), SIMILAR)


def _closest(name: str, names: Iterable[str], cutoff: float) -> str | None:
    import difflib  # only an unknown name needs it

    found = difflib.get_close_matches(name.lower(), names, n=1, cutoff=cutoff)
    return found[0] if found else None
