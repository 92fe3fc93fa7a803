"""Models with local terms, and with another model beyond the end of a clock, made without any fit."""

from dataclasses import replace

import numpy as np
import oracle

from atlas_splines import Atlas
from atlas_splines.model.atlas import model_in, state_of
from atlas_splines.model.local_terms import Boxes, BoxRules, LocalTerms
from atlas_splines.model.state import Later


def local_terms(inputs=3, outputs=1, rows=300, most_rows=40, seed=0):
    """Random terms in boxes; they do not depend on the last input, and some centres are on a cut."""
    random = np.random.default_rng(seed)
    centres = random.random((rows, inputs)).astype(np.float32)
    centres[: rows // 3, 0] = 0.5
    rates = np.append(random.uniform(1, 30, inputs - 1), 0).astype(np.float32)
    boxes = Boxes.of(centres, rates, BoxRules(most_rows))
    weights = random.normal(size=(rows, outputs)).astype(np.float32)
    constants = random.normal(size=(len(boxes), outputs)).astype(np.float32)
    return LocalTerms(boxes, rates, centres, weights, constants)


def local_model(inputs=3, outputs=1, later=False, dtype="float32"):
    """A model with random coefficients and two sets of local terms; if wanted, with one beyond clocks 0 and 1."""
    model = oracle.randomize(Atlas(inputs, outputs, terms=2, density=1, dtype=dtype))
    terms = local_terms(inputs, outputs), local_terms(inputs, outputs, 100, 200, seed=1)
    state = replace(state_of(model), local=terms)
    if later:
        slopes = np.random.default_rng(2).normal(size=(inputs, outputs)).astype(np.float32)
        beyond = replace(
            state_of(oracle.randomize(Atlas(inputs, outputs, 1, 0, dtype=dtype))), local=terms[1:]
        )
        clocks = np.array([0, 1]), np.array([1, -1], np.int8), np.array([0.7, 0.1], np.float32)
        state = replace(state, later=Later(*clocks, beyond, slopes))
    return model_in(state)


def points_near(model, rows=2000):
    """Random points, and some at centres, on cuts and at the ends of clocks."""
    random, state = np.random.default_rng(3), state_of(model)
    X = random.random((rows, model.inputs)).astype(np.float32)
    X[:100] = state.local[0].centres[:100]
    X[100:150, 0] = random.choice(state.local[0].boxes.cuts, 50)
    if state.later is not None:
        X[150:200, state.later.clocks] = state.later.ends
    return X.astype(model.dtype)
