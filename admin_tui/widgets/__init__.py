"""The widgets of screens."""
