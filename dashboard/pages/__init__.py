"""The pages, one file each: what a page shows (its channels and its layout) and what can be done there."""
