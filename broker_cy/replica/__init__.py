"""A partition as clients see it: role, log end offset, high watermark, waiting fetches."""
