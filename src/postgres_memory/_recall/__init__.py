"""One file per verb that ranks or reads, read from top to bottom."""
