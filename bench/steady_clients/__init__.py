"""Clients in separate processes that write at a steady rate, like applications, while nodes fail."""
