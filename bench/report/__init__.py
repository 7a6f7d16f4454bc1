"""The result of a run: its figures, statistics and JSON document, shown as text, live or as an HTML page."""
