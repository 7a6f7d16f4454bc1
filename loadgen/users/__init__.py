"""The kinds of users."""
