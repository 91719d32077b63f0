"""What a grammar costs the model's speed."""
