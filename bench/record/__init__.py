"""The recorded tables of docs/performance.md: their measurements, and filling in the tables from them."""
