"""One file per API; each registers its own version range."""
