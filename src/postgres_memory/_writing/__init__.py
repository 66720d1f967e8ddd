"""One file per verb that writes, read from top to bottom."""
