"""The records of share groups on partitions that this broker leads: fetches, acknowledgements, sessions (KIP-932)."""
