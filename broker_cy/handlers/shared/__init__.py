"""Parts that several handlers share. No module here registers a handler."""
