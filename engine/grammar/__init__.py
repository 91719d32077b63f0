"""Which tokens may come next, by a grammar that a request brings."""
