"""Tables and the record as Markdown."""
