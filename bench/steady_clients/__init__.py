"""Clients in processes of their own that write at a steady rate, as applications do, while nodes fail."""
