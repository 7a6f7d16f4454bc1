"""Texts of the corpus with changed tokens or characters."""

from __future__ import annotations

import random

from broker_registry.schema_types.protobuf.lexer import tokens_of
from tests.broker_registry.schema_types.protobuf import corpus

_EXTRA = (
    *("map", "<", ">", ",", ";", "{", "}", "[", "]", "(", ")", "=", '"', "'", "/", "//x\n", "/*", "*/", ".", ".."),
    *("-1", "0", "1", "0x", "0x7fffffff", "99999999999", "group", "oneof", "extend", "reserved", "extensions", "to"),
    *("max", "option", "syntax", "message", "enum", "optional", "repeated", "required", "stream", "rpc", "returns"),
    *("default", "json_name", "true", "\\", '"\\x"', '"\\1"', "é", "\0", "\N{SNOWMAN}", "edition", "import", "weak"),
)
_TOKENS = {name: tokens_of(corpus.text_of(name))[:-1] for name in corpus.NAMES}
_POOL = [token for tokens in _TOKENS.values() for token in tokens]


def without_comments(text: str) -> str:
    """Return the tokens of a text, one a line. Wire refuses what follows a trailing comment in its line."""
    return "\n".join(tokens_of(text)[:-1])


def mutant(source: random.Random) -> str:
    """Return a text of the corpus with one to three changed tokens."""
    tokens = list(_TOKENS[source.choice(corpus.NAMES)])
    for _ in range(source.choice((1, 1, 1, 2, 3))):
        if not tokens:
            break
        at = source.randrange(len(tokens))
        act = source.randrange(7)
        if act == 0:
            del tokens[at]
        elif act == 1:
            tokens.insert(at, source.choice(tokens))
        elif act == 2:
            tokens[at] = source.choice(tokens)
        elif act == 3:
            other = source.randrange(len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif act == 4:
            tokens.insert(at, source.choice(_EXTRA))
        elif act == 5:
            tokens[at] = source.choice(_POOL)
        else:
            del tokens[at : at + source.randrange(1, 12)]
    return source.choice((" ", "\n")).join(tokens)


def broken(source: random.Random) -> str:
    """Return a text of the corpus with changed characters, which may end inside of a token or a comment."""
    text = corpus.text_of(source.choice(corpus.NAMES))
    for _ in range(source.choice((1, 2, 5))):
        at = source.randrange(len(text) + 1)
        act = source.randrange(4)
        if act == 0:
            text = text[:at]
        elif act == 1:
            text = text[:at] + text[at + 1 :]
        elif act == 2:
            text = text[:at] + source.choice(_EXTRA) + text[at:]
        else:
            end = min(len(text), at + source.randrange(40))
            text = text[:at] + text[at:end] * 2 + text[end:]
    return text
