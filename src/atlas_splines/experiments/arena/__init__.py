"""Memory retention against what one would use instead, on the public API only."""
