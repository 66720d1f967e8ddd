"""Tables, statements and predicates: knows the schema, does no I/O."""
