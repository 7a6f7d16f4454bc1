"""Access to locust's page from other pages, and from programs other than browsers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.loadgen.run.kit import COMMAND, ENDS_S, ROOT, producers
from tests.loadgen.web.test_page import serving

FORM = "user_count=1&spawn_rate=1"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A page without a cluster."""
    directory = tmp_path_factory.mktemp("guard")
    with serving(directory, "127.0.0.1:1", "--scenario", producers(directory, "guard")) as address:
        yield address


def ask(url: str, method: str, path: str, headers: dict[str, str], body: str | None = None) -> tuple[int, str]:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/swarm", "/stop", "/stats/reset", "/user", "/", "/stats/requests"])
@pytest.mark.parametrize("origin", ["http://evil.example", "https://127.0.0.1", "null"])
def test_foreign_origins_are_refused(url: str, path: str, origin: str) -> None:
    """If this fails, any page that a user visits can start load on the cluster, or read the results of the run."""
    method = "GET" if path in ("/", "/stats/requests") else "POST"
    headers = {"Origin": origin, "Content-Type": "application/x-www-form-urlencoded"}
    status, text = ask(url, method, path, headers, FORM if method == "POST" else None)
    assert status == 403
    assert repr(origin) in text


def test_the_own_origin_and_programs_are_served(url: str) -> None:
    """If this fails, the page's own requests are refused, or those of curl."""
    assert ask(url, "GET", "/stats/requests", {"Origin": url})[0] == 200
    assert ask(url, "GET", "/stats/requests", {})[0] == 200
    assert ask(url, "GET", "/", {"Host": f"localhost:{urlsplit(url).port}"})[0] == 200


def test_other_host_names_are_refused(url: str) -> None:
    """If this fails, a page whose name is rebound to this machine counts as locust's own (DNS rebinding)."""
    status, text = ask(url, "GET", "/", {"Host": "evil.example:8089"})
    assert status == 403
    assert "evil.example" in text


def test_there_is_no_debugger(url: str) -> None:
    """If this fails, every client of the page can run code on the generator's host."""
    query = "?__debugger__=yes&cmd=resource&f=debugger.js"
    assert "<!doctype html>" in ask(url, "GET", f"/{query}", {})[1]
    # Locust expects JSON here; anything else is an error of the route.
    status, text = ask(url, "POST", "/user", {}, "no json")
    assert status == 500
    assert "Traceback" not in text
    assert "debugger" not in text.lower()
    assert ask(url, "GET", "/console", {})[0] == 404


def test_a_port_in_use(url: str, tmp_path: Path) -> None:
    """If this fails, a second page on the same port reports that it is ready, and never answers."""
    listen = urlsplit(url).netloc
    words = [*COMMAND, "web", "--listen", listen]
    ended = subprocess.run(words, env={"PYTHONPATH": str(ROOT)}, cwd=tmp_path, capture_output=True, timeout=ENDS_S)
    assert ended.returncode == 1
    assert f"broker-load: --listen: {listen}: " in ended.stderr.decode()
    assert "Traceback" not in ended.stderr.decode()
    words += ["--json"]
    ended = subprocess.run(words, env={"PYTHONPATH": str(ROOT)}, cwd=tmp_path, capture_output=True, timeout=ENDS_S)
    assert listen in json.loads(ended.stderr.splitlines()[-1])["error"]["reason"]
