"""The `broker-tui` command. Little is imported before the options are checked, so that the console starts quickly."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from admin_tui.app import Console

PROGRAM = "broker-tui"
EXAMPLES = """\
examples:
  broker-tui                                   the default cluster of the cluster file, or 127.0.0.1:9092
  broker-tui --bootstrap 127.0.0.1:9092
  broker-tui --cluster production --readonly
  broker-tui --bootstrap broker-1:9093 --command-config client.properties
  broker-tui --alerts alerts.toml --theme nord
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    from broker_cy.client import options

    top = options.Parser(
        prog=PROGRAM,
        description="The terminal console of broker-cy. Press ? for help.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_arguments(top, [*options.OF_CLUSTER, *options.OF_REGISTRY, *options.OF_MIRRORS])
    top.add_argument(
        "--settings",
        metavar="FILE",
        type=Path,
        help="file with theme and keys; default tui.toml in the directory of clusters.toml",
    )
    top.add_argument("--readonly", action="store_true", help="refuse every change")
    top.add_argument(
        "--theme", metavar="NAME", help="theme; ansi-dark and ansi-light use the terminal's own 16 colours"
    )
    top.add_argument(
        "--alerts",
        metavar="FILE",
        type=Path,
        help="file with alert rules; default alerts.toml in the directory of clusters.toml",
    )
    top.add_argument("--notify", action="store_true", help="POST each alert to the [webhook] of the alert rules")
    top.add_argument("--timeout", dest="timeout_s", metavar="SECONDS", type=float, help="time limit of each call")
    top.add_argument("--json", dest="as_json", action="store_true", help="print errors as JSON")
    options.add_version(top, PROGRAM)
    return top


def build(arguments: argparse.Namespace) -> Console:
    """Build the application for the options. Raises ClientError."""
    from admin_tui.settings import Settings, default_settings_path, load_settings
    from broker_cy.client import options
    from broker_cy.client.clusters import find_cluster, find_file
    from broker_cy.client.errors import ClientError, Failure

    wanted = options.wanted(vars(arguments)).or_environment()
    problem = ""
    try:
        file = find_file(wanted.clusters_file, wanted.name)
    except ClientError as error:
        # With an address, the default file only has the names for `:cluster`.
        if wanted.bootstrap is None or wanted.clusters_file is not None:
            raise
        file, problem = None, str(error)
    entry = wanted.changed(find_cluster(file, wanted.bootstrap, wanted.name))
    settings = Settings()
    path = arguments.settings or default_settings_path(wanted.clusters_file)
    # A file that was not given need not exist.
    if arguments.settings is not None or path.exists():
        settings = load_settings(path)
    from broker_cy.console.alerts.rules import AlertSettings, default_rules_path
    from broker_cy.console.alerts.rules import load_settings as load_alerts
    from broker_cy.console.alerts.watch import Alerting

    rules = arguments.alerts or settings.alerts
    by_default = default_rules_path(wanted.clusters_file)
    if rules is None and by_default.exists():
        rules = by_default
    alerts = Alerting(AlertSettings() if rules is None else load_alerts(rules), notifies=arguments.notify)
    from admin_tui.app import Console

    console = Console(
        entry,
        settings,
        clusters={} if file is None else dict(file.clusters),
        clusters_problem=problem,
        is_readonly=arguments.readonly,
        timeout_s=arguments.timeout_s,
        alerts=alerts,
    )
    # A wrong setting is reported at the start, not by a screen.
    _ = console.schemas
    if arguments.theme is not None:
        if arguments.theme not in console.available_themes:
            known = ", ".join(sorted(console.available_themes))
            raise ClientError(Failure.INVALID, f"--theme {arguments.theme}: the themes are {known}")
        console.theme = arguments.theme
    return console


def main(argv: Sequence[str] | None = None) -> int:
    """Run the console and return the exit code of the process."""
    arguments = parser().parse_args(argv)
    # How long to wait for the rest of a sequence after an escape byte, which the escape key sends, too. Textual's
    # default of 100 ms is noticeable.
    os.environ.setdefault("ESCDELAY", "10")
    from broker_cy.client.errors import ClientError
    from broker_cy.client.program import end

    try:
        console = build(arguments)
    except ClientError as error:
        return end(PROGRAM, error, as_json=arguments.as_json)
    return console.run() or 0


if __name__ == "__main__":
    sys.exit(main())
