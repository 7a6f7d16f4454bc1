"""The terminal console: `broker-tui`, over the admin core."""
