"""Bayesian linear models on features: sufficient statistics, posteriors, local memory, and error models.

Everything learned is a sum over rows or the rows themselves; weights are solved for. May import `model` only.
"""
