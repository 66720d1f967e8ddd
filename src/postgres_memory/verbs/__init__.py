"""The public verbs, grouped; each delegates to the pipeline that does it."""
