"""Continual learning without forgetting: the plan of an update, its footprint, how rows are learned, the log.

Imports `model` and `memory`.
"""
