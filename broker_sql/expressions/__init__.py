"""Typing and evaluation of expressions.

    type_of(node, scope)        the type, with names of columns and functions resolved
    compile(node, scope)        a function of a row
    compile_all(nodes, scope)   all columns of a SELECT as one function
    predicate(node, scope)      a condition, which is False where it is NULL or fails
    cast, coerce, implicit      values and types without an expression

Layers from below: `casts`, `literals` (values), `common`, `rules` (types), `resolve` (nodes to trees with types),
`source` (trees to Python), `compiled`. Values of each type in Python: docs/sql.md, "Types".
"""

from __future__ import annotations

from broker_sql.expressions.casts import cast, castable, coerce, implicit, wider
from broker_sql.expressions.compiled import Compiled, compile, compile_all, predicate, type_of
from broker_sql.expressions.literals import literal
from broker_sql.expressions.scope import Columns, Functions, Log, Scope

__all__ = [
    "Columns",
    "Compiled",
    "Functions",
    "Log",
    "Scope",
    "cast",
    "castable",
    "coerce",
    "compile",
    "compile_all",
    "implicit",
    "literal",
    "predicate",
    "type_of",
    "wider",
]
