"""Dialogs: forms, previews of acts, records, help."""
