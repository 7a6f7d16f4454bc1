"""The cluster's metadata image and what changes it."""
