"""What asks: forms, previews of acts, help."""
