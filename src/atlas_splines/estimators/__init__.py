"""The scikit-learn estimators: inputs in the unit cube, targets, the fit, the ledger, intervals.

May import `model` to `tables`. The only folder that imports scikit-learn, besides the experiments' opponents.
"""
