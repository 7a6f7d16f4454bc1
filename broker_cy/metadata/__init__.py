"""The cluster's metadata image, and the records that change it."""
