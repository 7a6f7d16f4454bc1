"""`broker-streams test`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from broker_cy.client.program import EXIT_FAILED
from broker_cy.reporting.numbers import plural
from broker_streams.application import ApplicationError, load
from broker_streams.commands.context import application_argument, changes, errors, json_option, settings_option
from broker_streams.testing.case_file import CaseError, CaseFile, line_of
from broker_streams.testing.case_run import MISSING, SAME, UNEXPECTED, CaseResult, Difference, run_case
from broker_streams.testing.case_values import Shown, canonical

EPILOG: Final = """\b
examples:
  broker-streams test app.py                app.test.yaml and app.*.test.yaml beside the application
  broker-streams test app.py late.yaml
  broker-streams test app.py --update       write the answers into the file; review the difference
"""
# Equal records that are shown around different ones, and lines of one topic or store.
_AROUND: Final = 2
_LINES_MAX: Final = 60


@click.command("test", epilog=EPILOG)
@application_argument
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(path_type=Path))
@settings_option
@click.option("--update", is_flag=True, help="Write the answers of the application into the files.")
@json_option
@click.pass_context
def test_command(
    context: click.Context, /, file: Path, files: tuple[Path, ...], changed: tuple[str, ...], update: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Run inputs of FILE through the application APP.py, without a cluster, and compare its answers.

    The exit code is 0 if all tests pass, 1 if one fails.
    """
    with errors(context, as_json=as_json):
        application = load(file, changes(changed))
        failed = 0
        shown: list[dict[str, Any]] = []
        for cases in [CaseFile(path) for path in files or beside(file)]:
            try:
                results = [run_case(application.topology, application.config, case) for case in cases.cases]
            except CaseError as error:
                raise CaseError(f"{cases.path}: {error}") from error
            if update:
                results = _update(cases, results)
            failed += sum(not each.passed for each in results)
            shown += [{"file": str(cases.path), **_fields(each)} for each in results]
            if not as_json:
                for each in results:
                    for line in _lines(cases.path, each):
                        print(line)
        if as_json:
            print(json.dumps(shown, ensure_ascii=False))
        else:
            text = f"{len(shown) - failed} of {plural(len(shown), 'test')} passed"
            print(f"{text}; the files have the answers now" if update else text)
        if failed:
            context.exit(EXIT_FAILED)


def beside(application: Path) -> list[Path]:
    """The files of tests of an application. Raises ApplicationError: there is none."""
    folder, stem = application.parent, application.stem
    found = [folder / f"{stem}.test.yaml", *sorted(folder.glob(f"{stem}.*.test.yaml"))]
    found = [each for each in found if each.is_file()]
    if not found:
        raise ApplicationError(f"{folder / stem}.test.yaml does not exist: write it, or name a file")
    return found


def _update(cases: CaseFile, results: Sequence[CaseResult]) -> list[CaseResult]:
    """Write the answers of tests that gave some, and return the results as they are with them."""
    answers = {each.case.name: (each.topics, each.stores) for each in results if each.has_answers}
    text = cases.updated(answers)
    if text != cases.text:
        cases.path.write_text(text, encoding="utf-8")
    return [
        CaseResult(
            each.case, each.topics, each.stores, [], None if each.has_answers else each.failure, each.has_answers
        )
        for each in results
    ]


def _fields(result: CaseResult) -> dict[str, Any]:
    return {
        "test": result.case.name,
        "line": result.case.line,
        "passed": result.passed,
        "failure": result.failure,
        "differences": [
            {
                each.kind: each.name,
                "missing": [_json_of(record) for mark, record in each.lines if mark == MISSING],
                "unexpected": [_json_of(record) for mark, record in each.lines if mark == UNEXPECTED],
            }
            for each in result.differences
        ],
    }


def _json_of(record: Shown) -> Any:
    """A record as JSON. Bytes that are not UTF-8 are hexadecimal digits."""
    return json.loads(canonical(record))


def _lines(path: Path, result: CaseResult) -> Iterator[str]:
    case = result.case
    if result.passed:
        yield f"pass  {path}: {case.name}"
        return
    yield f"FAIL  {path}:{case.line}: {case.name}"
    if result.failure is not None:
        yield f"  {result.failure}"
    for each in result.differences:
        missing = sum(mark == MISSING for mark, _ in each.lines)
        unexpected = sum(mark == UNEXPECTED for mark, _ in each.lines)
        yield f"  {each.kind} {each.name}: {missing} expected and missing (-), {unexpected} not expected (+)"
        yield from _excerpt(each)


def _excerpt(of: Difference) -> Iterator[str]:
    """The records that differ, and those around them."""
    changed = [number for number, (mark, _) in enumerate(of.lines) if mark != SAME]
    wanted = sorted({near for at in changed for near in range(at - _AROUND, at + _AROUND + 1)})
    last = -1
    lines = 0
    for number in wanted:
        if not 0 <= number < len(of.lines):
            continue
        if lines == _LINES_MAX:
            left = sum(at >= number for at in changed)
            yield f"    ... {plural(left, 'further record')} that differ; --json has all of them"
            return
        if number > last + 1:
            yield f"    ... {plural(number - last - 1, 'equal record')}"
        mark, record = of.lines[number]
        yield f"    {mark} {line_of(record)}"
        last, lines = number, lines + 1
