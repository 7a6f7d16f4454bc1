"""A plugin of pytest for karapace's tests: each test has a registry with a topic of its own, as karapace's own fixture
gives it. Loaded by the Python that runs those tests, which has no package of this project.

BROKER_CY_REGISTRY_COMMAND   the words of a command that starts a registry at a free port, as a list in JSON;
                             `{topic}` in a word is the topic of the test
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Final
from unittest.mock import MagicMock

import pytest

# A library in Go of Karapace's own server, which these tests do not use.
sys.modules["karapace.core.protobuf.protopace.protopace"] = MagicMock()

_LISTENING: Final = "listening on "
_END_S: Final = 30.0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    topic = f"_schemas-{uuid.uuid4().hex}"
    words = [word.format(topic=topic) for word in json.loads(os.environ["BROKER_CY_REGISTRY_COMMAND"])]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        line = next(line for line in process.stdout if _LISTENING in line)
        item.config.option.registry_url = line.split(_LISTENING)[1].split()[0]
        return (yield)
    finally:
        process.kill()
        process.wait(_END_S)
