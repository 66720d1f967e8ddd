"""What other systems keep, read as items: one reader a source, none of which stores anything."""
