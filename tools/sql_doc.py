"""Write docs/sql-functions.md from the registry of functions: `python tools/sql_doc.py [--check]`."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from broker_sql.functions import FunctionInfo, SignatureInfo, standard  # noqa: E402
from tools.settings_page import main, wrapped  # noqa: E402

PAGE = ROOT / "docs" / "sql-functions.md"
HEAD = """\
# Functions of SQL

Use this page to find a function for a statement of broker-sql. The functions are those of ksqlDB, with the same names,
arguments and results. `SHOW FUNCTIONS` lists them, and `DESCRIBE FUNCTION name` shows one. This page is generated from
`broker_sql/functions/` by `tools/sql_doc.py`; a test keeps it up to date.

Names have no case. `T`, `K`, `V` and other single letters stand for any type, the same one at all its places. `...`
marks an argument that may be repeated or left out. `ANY` is any type, `DECIMAL` one of any precision and scale.

- **Overloads.** A call takes the overload that accepts the types of its arguments as they are. Only if there is none,
  arguments are cast implicitly: `INTEGER` to `BIGINT` to `DECIMAL` to `DOUBLE`, and `STRING` to `DATE`, `TIME` and
  `TIMESTAMP`. If several overloads fit then, the call is ambiguous: cast an argument. Aggregate functions have no
  implicit casts.
- **NULL.** The result is NULL if an argument is NULL, unless the description says otherwise.
- **Errors.** An error in a record, such as a text without a date, makes the result NULL, and is in the log.
- **Positions** in texts count from 1, in UTF-16 units as in Java: a character above U+FFFF has two.
- **Regular expressions** are Java's. Intersections of classes and scripts of Unicode are refused.
- **Patterns of dates** are those of `java.time.format.DateTimeFormatter`, in English. Letters have no case when a text
  is read. `B` is for output only. A zone is an identifier (`Europe/Paris`), or an offset (`+02:00`).

Differences from ksqlDB: `HISTOGRAM` leaves NULL out. `COUNT_DISTINCT` is exact up to 512 values. `STDDEV_SAMP` merges
sessions exactly. The order of records of `EARLIEST_BY_OFFSET` and `LATEST_BY_OFFSET` survives a restart of the process.
`REDUCE` of a map takes entries in their order in the record, and ksqlDB in the order of a hash table.

## Functions in Python

```sql
CREATE FUNCTION initials(name STRING, most INT) RETURNS STRING LANGUAGE PYTHON AS $$
    letters = [word[0] for word in (name or "").split()]
    return "".join(letters[:most]) or None
$$;
SELECT id, initials(name, 3) FROM customers EMIT CHANGES;
DROP FUNCTION initials;
```

The setting `ksql.functions.python.enabled=true` allows such functions: they run in the process of the query, with all
rights of the server. The text is one of:

- an expression: `name * 2`;
- the body of a function, with `return`;
- a module that defines a function of the same name. It may import, and keep what it computes once.

Arguments have their names in lower case, unless the statement quotes them, and None for NULL. Values in Python: `int`
for `INTEGER`, `BIGINT`, `DATE` (days since 1970), `TIME` (milliseconds of the day) and `TIMESTAMP` (milliseconds since
1970), `float`, `str`, `bool`, `bytes`, `decimal.Decimal`, `list`, and `dict` for `MAP` and `STRUCT`. An exception, and
a result that does not have the return type, make the result NULL, and are in the log.

`CREATE OR REPLACE FUNCTION` and `DROP FUNCTION` are refused while a persistent query calls the function. A function
cannot have the name of one of the functions below.

## All functions
"""
TITLES = {"DATE / TIME": "Dates and times", "URL": "URLs", "JSON": "JSON", "GEO": "Geography"}


def title(category: str) -> str:
    return TITLES.get(category, f"{category.capitalize()} functions")


def anchor(text: str) -> str:
    return "".join(each for each in text.lower().replace(" ", "-") if each.isalnum() or each in "-_")


def call(info: FunctionInfo, signature: SignatureInfo) -> str:
    """Return the call with its return type, as one line."""
    shown = (f"{each.name} {each.type}{'...' if each.variadic else ''}" for each in signature.arguments)
    return f"{info.name}({', '.join(shown)}) -> {signature.return_type}"


def function(info: FunctionInfo) -> str:
    """Return the section of a function."""
    found = [f"\n### {info.name}\n\n```text\n"]
    found += [f"{call(info, each)}\n" for each in info.signatures]
    found.append("```\n\n")
    found.append(wrapped(info.description, ""))
    described = {each.name: each.description for signature in info.signatures for each in signature.arguments}
    if described:
        found.append("\n")
    found += [wrapped(f"- `{name}`: {text}", "  ") for name, text in described.items()]
    return "".join(found)


def page() -> str:
    registry = standard()
    categories: dict[str, list[FunctionInfo]] = {}
    for info in map(registry.describe, registry.names()):
        categories.setdefault(info.category, []).append(info)
    found = [HEAD, "\n"]
    for category, infos in sorted(categories.items(), key=lambda each: title(each[0])):
        names = ", ".join(f"[{each.name}](#{anchor(each.name)})" for each in infos)
        found.append(wrapped(f"- [{title(category)}](#{anchor(title(category))}): {names}", "  "))
    for category, infos in sorted(categories.items(), key=lambda each: title(each[0])):
        found.append(f"\n## {title(category)}\n")
        found += map(function, infos)
    return "".join(found)


if __name__ == "__main__":
    raise SystemExit(main(PAGE, page, __doc__))
