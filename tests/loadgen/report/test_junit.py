"""JUnit XML, by which a build server shows why a build failed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from loadgen.report import junit
from loadgen.report.result import Generator, Result, Verification
from tests.support.load_results import bad, good

# The attributes that the schema of Jenkins' xUnit plugin allows.
CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase", "system-out", "system-err"},
    "testcase": {"skipped", "error", "failure", "system-out", "system-err"},
    **{name: set[str]() for name in ("skipped", "error", "failure", "system-out", "system-err")},
}
REQUIRED = {
    "testsuites": {"time", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname"},
    "testcase": {"name", "classname", "time"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "skipped": set[str](),
    "system-out": set[str](),
}


@pytest.fixture(scope="module")
def passed() -> Result:
    return good(10)


def parsed(result: Result) -> Element:
    """Return the suite, after a check of the rules of the schema."""
    root = ElementTree.fromstring(junit.render(result))
    assert root.tag == "testsuites"
    for each in root.iter():
        assert REQUIRED[each.tag] <= each.attrib.keys()
        assert {child.tag for child in each} <= CHILDREN[each.tag]
    suite = root.find("testsuite")
    assert suite is not None
    cases = suite.findall("testcase")
    names = [case.get("name") for case in cases]
    assert len(set(names)) == len(names)
    assert int(suite.get("tests", "")) == len(cases)
    for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.get(key, "")) == len(suite.findall(f"testcase/{tag}"))
    assert float(suite.get("time", "")) == result.seconds
    return suite


def outcomes(suite: Element) -> dict[str, list[str]]:
    return {case.get("name", ""): [each.tag for each in case] for case in suite.findall("testcase")}


def test_a_good_run_passes_every_case(tmp_path: Path, passed: Result) -> None:
    """If this fails, a build server marks a good build as failed."""
    assert outcomes(parsed(passed)) == {
        "verification": [],
        "generator": [],
        "threshold Produce p99_ms": [],
        "threshold Produce error_share": [],
    }
    junit.write(passed, tmp_path / "deep" / "result.xml")
    assert (tmp_path / "deep" / "result.xml").read_text() == junit.render(passed)


def test_each_failure_has_its_text() -> None:
    """If this fails, a failed build does not show why."""
    suite = parsed(bad())
    assert outcomes(suite) == {
        "verification": ["failure"],
        "generator": ["error"],
        "threshold Produce p99_ms": ["failure"],
        "threshold Produce error_share": ["failure"],
    }
    texts = [each.text or "" for each in suite.findall("testcase/*")]
    assert (
        texts[0] == "broker-load-2: 1 duplicated\nduplicated: broker-load-2: sequence 1841 of producer 3 at offset 3391"
    )
    assert "worker 2 was lost" in texts[1]
    assert texts[2].startswith("Produce p99_ms: 445")
    assert (suite.findtext("system-out") or "").startswith("Data wrong\n")


def test_unchecked_data_is_skipped_or_an_error(passed: Result) -> None:
    """If this fails, unchecked data passes as verified."""
    assert outcomes(parsed(replace(passed, verification=None)))["verification"] == ["skipped"]
    problem = replace(passed, verification=Verification(problem="no leader"))
    assert outcomes(parsed(problem))["verification"] == ["error"]


def test_an_interrupted_run_says_so(passed: Result) -> None:
    """If this fails, an interrupted build looks complete."""
    text = parsed(replace(passed, ended="interrupted after 3 s of 10 s")).findtext("system-out")
    assert text == "Good so far\ninterrupted after 3 s of 10 s"


def test_any_text_makes_good_xml(passed: Result) -> None:
    """If this fails, an error text with a control character makes a file that build servers cannot read."""
    evil = "<&\"']]>\x00\x1b[31m\ufffe\ud800 ü 🎉"
    suite = parsed(replace(passed, generator=Generator(reasons=(evil,)), scenario={**passed.scenario, "name": evil}))
    error = suite.find("testcase/error")
    assert error is not None
    assert error.text == "<&\"']]>\ufffd\ufffd[31m\ufffd\ufffd ü 🎉"
