"""A result as JUnit XML, which build servers show: a test case for the data, the generator, and each threshold.

The elements are those that Jenkins and GitLab read: testsuites, testsuite, testcase, failure, error, skipped.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from broker_cy.reporting.files import replace_file
from loadgen.report.result import Result

# Characters that XML 1.0 cannot hold, not even escaped (section 2.2).
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(result: Result, path: Path) -> None:
    """Write the XML file of a result. Raises OSError."""
    replace_file(path, render(result))


def render(result: Result) -> str:
    """Return the XML. Wrong data and missed thresholds are failures; a generator that was the limit, and data that
    could not be checked, are errors: they say nothing about the cluster.
    """
    name = f"broker-load.{result.scenario.get('name', '')}"
    suite = ElementTree.Element(
        "testsuite", name=_text(name), timestamp=_text(_started(result)), hostname=_host(result)
    )
    _data(suite, name, result)
    case = _case(suite, name, "generator")
    if result.generator.is_limit:
        _add(case, "error", "the generator was the limit", "\n".join(result.generator.reasons))
    for each in result.thresholds:
        asked = each.threshold
        case = _case(suite, name, f"threshold {asked.operation or 'run'} {asked.metric}")
        if not each.is_met:
            _add(case, "failure", each.text, each.text)
    out = ElementTree.SubElement(suite, "system-out")
    out.text = _text("\n".join([result.headline, *filter(None, [result.ended]), *result.findings]))
    counts = {
        "tests": len(suite.findall("testcase")),
        "failures": len(suite.findall("testcase/failure")),
        "errors": len(suite.findall("testcase/error")),
        "skipped": len(suite.findall("testcase/skipped")),
    }
    for key, count in counts.items():
        suite.set(key, str(count))
    suite.set("time", f"{result.seconds:.3f}")
    root = ElementTree.Element("testsuites", {key: str(count) for key, count in counts.items() if key != "skipped"})
    root.set("time", f"{result.seconds:.3f}")
    root.append(suite)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _data(suite: ElementTree.Element, name: str, result: Result) -> None:
    found = result.verification
    case = _case(suite, name, "verification", 0.0 if found is None else found.seconds)
    if found is None:
        ElementTree.SubElement(case, "skipped", message="the data was not checked")
    elif found.why_unchecked is not None:
        _add(case, "error", found.text, found.text)
    elif not found.is_good:
        lines = [
            f"{each.topic}-{each.partition}: {', '.join(f'{count} {name}' for name, count in each.defects.items())}"
            for each in found.partitions
            if each.defects
        ]
        examples = [
            f"{kind}: {example}"
            for each in found.partitions
            for kind, several in each.examples.items()
            for example in several
        ]
        _add(case, "failure", found.text, "\n".join([*lines, *examples]))


def _case(suite: ElementTree.Element, classname: str, name: str, seconds: float = 0.0) -> ElementTree.Element:
    return ElementTree.SubElement(
        suite, "testcase", classname=_text(classname), name=_text(name), time=f"{seconds:.3f}"
    )


def _add(case: ElementTree.Element, kind: str, message: str, text: str) -> None:
    ElementTree.SubElement(case, kind, message=_text(message), type=kind).text = _text(text)


def _text(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)


def _started(result: Result) -> str:
    """Return the time of the start without a zone, as readers of the schema expect xs:dateTime."""
    return str(result.provenance.get("started", "")).split("+")[0]


def _host(result: Result) -> str:
    return _text(result.workers[0].host if result.workers else "")
