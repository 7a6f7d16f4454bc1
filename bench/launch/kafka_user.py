"""locust-plugins' KafkaUser, in a separate virtual environment, which is created from PyPI once per machine."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from broker_cy.launch.cache import made_once
from broker_cy.launch.processes import ProcessError, run

VERSION = "5.0.3"
PACKAGES = (f"locust-plugins=={VERSION}", "locust==2.47.0", "gevent==26.9.0", "confluent-kafka==2.16.1")
# See the file. More users do not help the first two, which block gevent's hub.
FORMS = ("plain", "linger", "polled")
USERS = 16
LOCUSTFILE = Path(__file__).resolve().parents[1] / "specs" / "locustfiles" / "kafka_user.py"
INSTALL_S = 280.0
# The time to start locust and to stop its users.
AROUND_S = 60.0
WARM_UP_S = 1
SPAWN_RATE = 100


@dataclass(frozen=True)
class Sent:
    """The results of the users of one process."""

    seconds: float
    cpu_s: float
    acknowledged: float
    failed: float

    @property
    def per_s(self) -> float:
        """Acknowledged records a second."""
        return self.acknowledged / self.seconds

    @property
    def per_core_s(self) -> float:
        """Acknowledged records a second of CPU."""
        return self.acknowledged / self.cpu_s


@cache
def _python() -> Path:
    return made_once(f"locust-plugins-{VERSION}", _install) / "bin" / "python"


def _install(directory: Path) -> None:
    run([sys.executable, "-m", "venv", directory], timeout_s=INSTALL_S)
    run([directory / "bin" / "python", "-m", "pip", "install", "-q", *PACKAGES], timeout_s=INSTALL_S)


def send(form: str, bootstrap: str, topic: str, *, seconds: float, directory: Path) -> Sent:
    """Let KafkaUsers send for `seconds`. Raises ProcessError, also if a record was not acknowledged."""
    result = directory / "kafka-user.json"
    result.unlink(missing_ok=True)
    time_s = WARM_UP_S + max(1, round(seconds))  # locust knows only whole seconds
    argv: list[str | Path] = [_python(), "-m", "locust", "-f", LOCUSTFILE, "--headless", "--only-summary", "--skip-log"]
    argv += ["-u", str(USERS), "-r", str(SPAWN_RATE), "-t", f"{time_s}s"]
    env = {
        "BENCH_BOOTSTRAP": bootstrap, "BENCH_TOPIC": topic, "BENCH_FORM": form, "BENCH_RESULT": str(result),
        "BENCH_WARM_UP_S": str(WARM_UP_S), "PYTHONPATH": "",
    }  # fmt: skip
    done = run(argv, timeout_s=seconds + AROUND_S, check=False, env=env, cwd=directory)
    if not result.exists():
        raise ProcessError(f"KafkaUser ({form}) ended with exit code {done.returncode}: {done.stderr[-2000:]!r}")
    sent = Sent(**json.loads(result.read_text()))
    if sent.failed or not sent.acknowledged:
        raise ProcessError(f"KafkaUser ({form}): {sent.acknowledged:g} acknowledged, {sent.failed:g} failed")
    return sent
