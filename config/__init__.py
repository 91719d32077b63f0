"""The settings: read once, checked, frozen."""
