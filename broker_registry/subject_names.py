"""Names of subjects and of their contexts.

    orders-value            the subject in the default context
    :.test:orders-value     the subject in the context `.test`
    :.test:                 the context itself, as the subject of settings
    :*:orders               a prefix in all contexts
    :.__GLOBAL:             settings of all contexts

Each context has ids of its own. Confluent's tenants do not exist here.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Final

DEFAULT_CONTEXT: Final = "."
GLOBAL_CONTEXT: Final = ".__GLOBAL"
WILDCARD: Final = "*"
ALL_CONTEXTS: Final = ":*:"
_RESERVED: Final = ("__GLOBAL", "__EMPTY")
_PREFIX: Final = ":."


@dataclass(frozen=True, slots=True)
class SubjectName:
    """A context, which starts with a dot, and a subject in it; an empty subject names the context."""

    context: str
    subject: str

    @classmethod
    def parse(cls, text: str) -> SubjectName:
        if text.startswith(_PREFIX):
            context, colon, subject = text[1:].partition(":")
            return cls(context, subject if colon else "")
        if text.startswith(ALL_CONTEXTS):
            return cls(WILDCARD, text[len(ALL_CONTEXTS) :])
        return cls(DEFAULT_CONTEXT, text)

    @property
    def prefix(self) -> str:
        """The text before the subject: empty for the default context."""
        return "" if self.context == DEFAULT_CONTEXT else f":{self.context}:"

    @property
    def text(self) -> str:
        return self.prefix + self.subject

    @property
    def is_default(self) -> bool:
        """Whether this is in the default context."""
        return self.context == DEFAULT_CONTEXT

    @property
    def is_context(self) -> bool:
        return not self.subject

    @property
    def is_global_context(self) -> bool:
        return self.context == GLOBAL_CONTEXT and not self.subject


def normalized(text: str) -> str:
    """Return the one form of a name: `:.:orders` is `orders`."""
    return SubjectName.parse(text).text


def context_of(text: str) -> str:
    return SubjectName.parse(text).context


def is_default_context(text: str | None) -> bool:
    """Return whether this names the default context as a whole, as None does."""
    if text is None:
        return True
    name = SubjectName.parse(text)
    return name.is_default and name.is_context


def qualified(parent: str, text: str) -> str:
    """Return the name that `text` has in a reference of a schema of `parent`: in its context, unless it has one."""
    name = SubjectName.parse(text)
    if name.is_default:
        outer = SubjectName.parse(parent)
        if not outer.is_default:
            name = SubjectName(outer.context, text)
    return name.text


def is_valid(text: str, *, for_settings: bool = False, may_be_empty: bool = True) -> bool:
    """Return whether a subject may have this name; subjects of settings may name the context `.__GLOBAL`."""
    if any(unicodedata.category(each) == "Cc" for each in text):
        return False
    name = SubjectName.parse(text)
    if name.subject in _RESERVED or (not may_be_empty and name.subject in ("", WILDCARD)):
        return False
    return for_settings or name.context != GLOBAL_CONTEXT


def is_inside(text: str, container: str) -> bool:
    """Return whether a subject is `container` itself, or in the context that it names."""
    outer = SubjectName.parse(container)
    if text == container:
        return True
    return outer.is_context and (outer.context in (GLOBAL_CONTEXT, context_of(text)))
