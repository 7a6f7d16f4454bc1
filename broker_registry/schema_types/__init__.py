"""Avro, JSON Schema and Protobuf as pure functions: text in, a parsed schema or InvalidSchema out."""
