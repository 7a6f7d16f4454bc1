"""Files for plain locust."""
