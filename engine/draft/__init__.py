"""Guesses at what follows a sequence's tokens."""
