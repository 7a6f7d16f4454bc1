"""The regression gate: compares callgrind's instruction counts of the hot operations with those in expected.json."""
