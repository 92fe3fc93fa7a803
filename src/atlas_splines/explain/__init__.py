"""Explanations: why a row has its prediction, which update it comes from, and what bounds hold.

It imports `core`, `pooled` and `memory`; the estimators and everything above may import it.
"""
