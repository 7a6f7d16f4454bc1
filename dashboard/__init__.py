"""The web dashboard, `broker-dash`: what the terminal console shows and does, in a browser, for many viewers."""
