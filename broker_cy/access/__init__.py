"""Authorization on this node, its delegation tokens, and the keys and threads that logins need."""
