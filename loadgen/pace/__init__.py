"""When each operation is due, and who performs it."""
