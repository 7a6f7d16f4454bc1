"""The console core: what the terminal console and the web dashboard share.

Sessions with their feeds and history, scans of records, alerts, plans of acts and their execution, and how values are
typed and shown. It stands on `broker_cy.admin` and imports no user interface (no click, rich or Textual): it holds no
global state, and everything of a session belongs to the event loop that started it.
"""
