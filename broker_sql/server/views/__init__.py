"""Tables that clients read: the rows of their topics, by key."""
