"""The change feed: turning it on, following it, taking away what is old."""
