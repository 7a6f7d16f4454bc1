"""Errors of records in the expressions of a statement, for the processing log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

_LOG: Final = logging.getLogger(__name__)


class QueryErrors:
    """The function for errors of the expressions of one statement. `query_id` is set when its query has one. In another
    process errors go to the log of that process.
    """

    def __init__(self, note: Callable[[str, str, Any], None] | None = None) -> None:
        self._note = note
        self.query_id = ""

    def __call__(self, text: str, node: Any) -> None:
        if self._note is None:
            _LOG.info("%s: %s", self.query_id, text)
        else:
            self._note(self.query_id, text, node)

    def __getstate__(self) -> dict[str, Any]:
        return {"_note": None, "query_id": self.query_id}
