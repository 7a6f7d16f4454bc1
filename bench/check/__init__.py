"""The regression gate: instructions of the hot operations, counted by callgrind, against those in expected.json."""
