"""The due time of each operation, and the user that performs it."""
