"""Texts into statements and expressions, and back: ksqlDB's SQL on sqlglot.

parse(text, variables)     statements (`broker_sql.statements`)
parse_expression(text)     a node of sqlglot or of `nodes`
parse_type(text)           a type of columns
to_text(of)                the canonical text of a statement or an expression
expected(text)             what can follow a text, for editors; also split and tokens
"""

from __future__ import annotations

from sqlglot.tokens import SQLGLOTC_INSTALLED

if SQLGLOTC_INSTALLED:
    raise ImportError(
        "broker_sql extends classes of sqlglot, which the compiled package does not allow: pip uninstall sqlglotc"
    )

from broker_sql.dialect.parser import expected, parse, parse_each, parse_expression, parse_type
from broker_sql.dialect.printer import to_text
from broker_sql.dialect.tokenizer import Kind, Token
from broker_sql.dialect.tokenizer import tokenize as tokens
from broker_sql.dialect.variables import split

__all__ = [
    "Kind",
    "Token",
    "expected",
    "parse",
    "parse_each",
    "parse_expression",
    "parse_type",
    "split",
    "to_text",
    "tokens",
]
