"""The formats on the wire and in the log: frames, the spec-driven codec, record batches, Produce and Fetch views."""
