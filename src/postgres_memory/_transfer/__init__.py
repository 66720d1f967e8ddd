"""Export and import: a namespace as JSON Lines and back. docs/reference/export-import.md describes the format."""
