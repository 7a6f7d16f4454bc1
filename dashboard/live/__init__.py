"""The WebSocket `/live`: subscriptions of browsers, and frames to them."""
