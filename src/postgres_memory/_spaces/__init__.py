"""Pipelines of the verbs on embedding spaces."""
