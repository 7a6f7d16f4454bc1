"""The view of a running instance from outside: its state, metrics and events, its pages over HTTP, and its stores."""
