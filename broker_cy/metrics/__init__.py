"""What the broker counts of itself. Counting is C structs; reading them is nobody's request path."""
