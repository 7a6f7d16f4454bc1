"""The partitions of this broker: opened, configured and deleted by the metadata; requests that wait for them."""
