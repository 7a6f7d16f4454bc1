"""The page with the report of broker-analytics, if one is configured. It covers days and weeks; other pages show at
most seven days.
"""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from dashboard import report_file
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.security.headers import SANDBOXED_PATH

NAME = "report"


def layout(context: Context, cluster: str, **_: str) -> Component:
    path = report_file.check(context)
    problem = report_file.problem(path)
    if problem:
        command = f"broker-analytics report --lake LAKE --out {path.name}"
        content: list[Component] = [
            html.P(problem, className="problem", role="alert"),
            html.P("This command writes it to the file of the option --report; a timer can repeat it:"),
            html.Pre(html.Code(command)),
        ]
        return shell(context, cluster, NAME, "Report", content)
    frame = html.Iframe(
        src=SANDBOXED_PATH, title="Report of broker-analytics", sandbox="allow-scripts", className="report-frame"
    )
    alone = html.A("Open alone", href=SANDBOXED_PATH, target="_blank", rel="noopener", className="quiet")
    return shell(context, cluster, NAME, "Report", [frame], actions=[alone])


PAGE = Page(NAME, "Report", layout)
