"""Spark's log: a file that is named if Spark does not start, or the terminal with --verbose."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.errors import PySparkRuntimeError

from spark_analytics import session
from spark_analytics.errors import SetUpError


@pytest.mark.parametrize("verbose", [False, True])
def test_the_log_is_quiet_unless_asked(verbose: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, results are lost in hundreds of log lines, or a user cannot see why Spark does not start."""

    def launched(conf: SparkConf, settings: dict[str, Any]) -> None:
        if settings:
            settings["stderr"].write("the log")
        assert bool(settings) is not verbose
        raise PySparkRuntimeError("no memory")

    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(java_gateway, "launch_gateway", launched)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(SetUpError, match="Spark did not start") as raised:
        session._launch(SparkConf(loadDefaults=False), verbose)
    named = re.search(r"its log: (.*)", str(raised.value))
    assert (named is None) is verbose
    if named is not None:
        assert Path(named[1]).read_text() == "the log"
