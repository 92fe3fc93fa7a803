"""The scikit-learn estimators: columns of any scale, sizes found by themselves, updates in users' units.

Imports `core`, `analysis` and `memory`. The only folder that imports scikit-learn, besides the experiments'
opponents.
"""
