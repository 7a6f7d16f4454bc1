"""The processors of all kinds of steps. An import of this package registers them."""
