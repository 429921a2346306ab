"""The HTML report of a selection."""
