"""Updates that do not forget: where they may change a model, how they learn, and how they are logged.

Imports `core` and `pooled`.
"""
