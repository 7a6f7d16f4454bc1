"""A topology as data, independent of who wrote it and of what runs it."""
