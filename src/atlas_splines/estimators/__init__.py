"""The scikit-learn estimators: columns of any scale, sizes found by themselves, updates in users' units.

Imports `core`, `analysis`, `memory` and `tables`. The only folder that imports scikit-learn, besides the
experiments' opponents.
"""
