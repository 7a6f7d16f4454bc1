"""The partitions of this broker: opened, configured and deleted as the metadata says; requests that wait for them."""
