"""Parts of pages: panels, tables, charts, the dialog of acts, the frame around every page."""
