"""Topics that the broker creates by itself, and their settings."""
