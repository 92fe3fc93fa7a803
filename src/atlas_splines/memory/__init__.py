"""Memory: what a model has learned, as sufficient statistics of features and as kept rows.

Rows give features (`features`, chosen by `initial_fit` and `selection`), exact sums of them (`statistics`;
`random_effects` for levels of categories), and local regressions in boxes (`kept_rows`, `laplace_kernel`,
`box_regression`, `local_memory`). From these follow posteriors (`posterior`, `constraints`, `softmax`), their
ensemble (`candidates`, `stacking`, `expert_weights`) and an error model (`error_model`, `conformal`,
`data_density`). `pool` holds all of it, with the `batches` of recent updates; `to_atlas` makes a model
of weights.

Imports `model` only.
"""
