"""Stores as others see them: read only, over all tasks of an instance that have a part of the store."""
