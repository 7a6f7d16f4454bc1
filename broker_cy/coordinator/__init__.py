"""Groups and their offsets as pure state machines over `__consumer_offsets`."""
