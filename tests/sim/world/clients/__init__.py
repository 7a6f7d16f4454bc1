"""The clients of the world: coroutines that act at random and record a history (tests.history.operations)."""
