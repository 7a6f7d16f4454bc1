"""The records that share groups have in flight, as pure state machines (KIP-932)."""
