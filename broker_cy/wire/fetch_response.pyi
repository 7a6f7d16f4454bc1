from typing import TypedDict

class FetchResponseFields(TypedDict):
    """`topics`: (name or id, [(index, error, high watermark, log start offset, diverging epoch, its end offset, records)])."""

    error_code: int
    session_id: int
    topics: list[tuple[bytes, list[tuple[int, int, int, int, int, int, bytes]]]]

def parse_fetch_response(body: bytes, version: int) -> FetchResponseFields: ...
