"""Our additions to locust's web page: tabs and their rows, downloads, and rules for starting and stopping."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

from flask import Response, jsonify, request

from loadgen.report import page
from loadgen.report.result import Result
from loadgen.runs import Runs
from loadgen.web import tab
from loadgen.web.guard import guard

PAGE_PATH, JSON_PATH = "/broker-load/report.html", "/broker-load/result.json"
# Locust's names of the routes that are handled here.
SWARM, STOP, REQUESTS = "locust.swarm", "locust.stop", "locust.request_stats"
RUNNING, STOPPED = "running", "stopped"


def extend(ui: Any, runs: Runs, names: Collection[str] | None = None) -> None:
    """Add our part to locust's web page before it starts. `names`: those of `guard`."""
    # Errors of a route are answered with 500 instead of raised through the server.
    ui.app.debug = False
    base = runs.environment.parsed_options.web_base_path or ""
    ui.template_args |= {
        "extended_tabs": tab.TABS,
        "extended_tables": tab.TABLES,
        "extended_csv_files": [
            {"href": f".{PAGE_PATH}", "title": "Download broker-load's report"},
            {"href": f".{JSON_PATH}", "title": "Download broker-load's result (JSON)"},
        ],
    }
    guard(ui.app, names)
    ui.app.before_request(lambda: _before(runs))
    ui.app.after_request(lambda response: _after(runs, response))
    for path, content_type, render in (
        (PAGE_PATH, "text/html; charset=utf-8", page.render),
        (JSON_PATH, "application/json", _json),
    ):
        view = ui.auth_required_if_enabled(_download(runs, path.rpartition("/")[2], content_type, render))
        ui.app.add_url_rule(f"{base}{path}", path.rpartition("/")[2].replace(".", "_"), view)
    # The typed time is the measured time, not locust's time since the first user.
    runs.environment.events.test_start.add_listener(lambda **_: ui._cancel_run_time_timer())


def _before(runs: Runs) -> Response | None:
    """A run in progress cannot be changed; a stopped run completes the operations of its users."""
    if request.endpoint == SWARM:
        if runs.in_progress:
            return jsonify(success=False, message=f"A run is in progress ({runs.state}). Its users cannot be changed.")
        if not request.form.get("run_time"):
            # Locust would keep the time of the previous run.
            runs.environment.parsed_options.run_time = None
    elif request.endpoint == STOP:
        runs.end()
    return None


def _after(runs: Runs, response: Response) -> Response:
    """Add our rows to the answers that the page requests during a run.

    The page sends no more requests once locust has stopped, so the state is `running` until our result is complete.
    """
    if request.endpoint == REQUESTS and response.status_code == 200:
        answer = json.loads(response.get_data())
        totals = runs.session.conductor.totals
        answer["extended_stats"] = tab.stats_of(totals, len(totals.series), runs.result, runs.state)
        if runs.in_progress:
            answer["state"] = RUNNING
        elif answer["state"] != "ready":
            answer["state"] = STOPPED
        response = Response(json.dumps(answer), content_type="application/json")
    return response


def _download(runs: Runs, name: str, content_type: str, render: Callable[[Result], str]) -> Callable[[], Response]:
    def answer() -> Response:
        if runs.result is None:
            return Response("No run has ended yet.\n", 404, content_type="text/plain; charset=utf-8")
        disposition = {"Content-Disposition": f'attachment; filename="broker-load-{name}"'}
        return Response(render(runs.result), headers=disposition, content_type=content_type)

    return answer


def _json(result: Result) -> str:
    return json.dumps(result.to_dict(), indent=1)
