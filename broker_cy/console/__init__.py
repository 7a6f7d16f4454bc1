"""The console core: the parts that the terminal console and the web dashboard share.

It has sessions with their feeds and history, scans of records, alerts, plans of acts and their execution, and the
parsing and formatting of values. It uses `broker_cy.admin` and imports no user interface (no click, rich or Textual).
It has no global state; everything in a session belongs to the event loop that started it.
"""
