"""Our tabs of locust's web page."""
