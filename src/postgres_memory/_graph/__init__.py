"""One file per verb on relations, read from top to bottom."""
