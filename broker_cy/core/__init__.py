"""The bottom layer: bounds-checked cursor, writer, CRC-32C, clock, error codes."""
