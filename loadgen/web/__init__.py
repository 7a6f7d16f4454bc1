"""Our tab of locust's web page."""
