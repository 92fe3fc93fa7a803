"""Evidence that adds up: exact statistics of data, features they are of, and the weights that follow.

Imports `core` only. `memory` pools the rows of updates here.
"""
