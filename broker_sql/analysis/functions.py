"""CREATE FUNCTION and DROP FUNCTION, and the registry with the functions of a catalog."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Final

from broker_sql.analysis.settings import PYTHON_FUNCTIONS, Settings
from broker_sql.catalog import Catalog, Change, FunctionInfo, PutFunction, RemoveFunction, nearest
from broker_sql.dialect.tokenizer import Kind, tokenize
from broker_sql.errors import Location, StatementError
from broker_sql.functions import FunctionRegistry
from broker_sql.functions.definitions import Function
from broker_sql.functions.python import python_function
from broker_sql.statements import CreateFunction, DropFunction
from broker_sql.types import quoted

_CACHED: Final = 256  # functions in Python that stay compiled, with the state of their modules


@lru_cache(maxsize=_CACHED)
def _function(info: FunctionInfo) -> Function:
    return python_function(info.name, info.parameters, info.returns, info.body)


def registry(functions: FunctionRegistry, catalog: Catalog) -> FunctionRegistry:
    """Return the registry with the functions of a catalog that it lacks. Raises AnalysisError: a text is not Python."""
    missing = [each for each in catalog.functions.values() if not functions.exists(each.name)]
    return functions.extended(map(_function, missing)) if missing else functions


def with_functions(settings: Settings, catalog: Catalog) -> Settings:
    """Return the settings with the functions of a catalog; they may have them already."""
    found = registry(settings.functions, catalog)
    return settings if found is settings.functions else replace(settings, functions=found)


def create(statement: CreateFunction, catalog: Catalog, settings: Settings) -> list[Change]:
    """Return the changes; none if the function exists and that is allowed.

    `settings` have the functions of the catalog. Raises AnalysisError: the text is not Python. Raises StatementError:
    functions in Python are off, the name is taken, or a query uses the function that is to be replaced."""
    if not settings.is_on(PYTHON_FUNCTIONS):
        raise StatementError(
            f"functions in Python are off: they run with all rights of the server. {PYTHON_FUNCTIONS}=true allows them",
            statement.location,
        )
    name, where = str(statement.name).upper(), statement.location
    if name in catalog.functions:
        if statement.if_not_exists:
            return []
        if not statement.or_replace:
            raise StatementError(f"function {quoted(name)} exists already: write CREATE OR REPLACE FUNCTION", where)
        _check_unused(name, catalog, where)
    elif settings.functions.exists(name):
        raise StatementError(f"function {quoted(name)} is one of broker_sql: choose another name", where)
    parameters = tuple((str(each), catalog.resolved(kind, each.location)) for each, kind in statement.parameters)
    lowered = tuple((each.lower() if each.isupper() else each, kind) for each, kind in parameters)
    info = FunctionInfo(name, lowered, catalog.resolved(statement.returns, where), statement.body, statement.text)
    _function(info)
    return [PutFunction(info)]


def drop(statement: DropFunction, catalog: Catalog) -> list[Change]:
    """Raises StatementError: there is no such function, or a query uses it."""
    name = str(statement.name).upper()
    if name not in catalog.functions:
        if statement.if_exists:
            return []
        message = f"function {quoted(name)} in Python does not exist{nearest(name, catalog.functions)}"
        raise StatementError(message, statement.location)
    _check_unused(name, catalog, statement.location)
    return [RemoveFunction(name)]


def _check_unused(name: str, catalog: Catalog, where: Location | None) -> None:
    users = [each.id for each in catalog.queries.values() if _calls(each.text, name)]
    if users:
        raise StatementError(f"function {quoted(name)} is in use by {', '.join(users)}. TERMINATE them first", where)


def _calls(text: str, name: str) -> bool:
    """True if a statement has a call of the function."""
    tokens = tokenize(text)
    return any(
        each.kind in (Kind.WORD, Kind.QUOTED) and each.text.upper() == name and behind.text == "("
        for each, behind in pairwise(tokens)
    )
