"""Three ways to send records."""
