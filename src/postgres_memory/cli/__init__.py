"""The command line, ``postgres-memory``: one file per command; nothing else in the package imports it."""
