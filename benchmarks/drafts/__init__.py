"""What drafts save, and what they cost where they fail."""
