"""The benchmark suite: contestants in processes of their own do the same work in turn."""
