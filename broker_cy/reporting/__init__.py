"""The text, tables, charts and documents of all programs. Imports no other room of this project."""
