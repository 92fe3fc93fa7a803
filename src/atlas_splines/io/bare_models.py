"""Serialisation of a model's configuration, domain and coefficients, as docs/format.md describes.

Charts, log and memory have modules of their own.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from atlas_splines.files.archive import Archive
from atlas_splines.files.fields import Fields
from atlas_splines.model import splines
from atlas_splines.model.atlas import Atlas, model_in, state_of
from atlas_splines.model.lattice import MAX_DENSITY, MAX_WIDTH, Domain, Lattice, check_reach
from atlas_splines.model.state import padded

__all__ = [
    "configuration_of",
    "padded_size",
    "read_bare_model",
    "read_domain",
    "read_table",
    "table_tensors",
    "table_width",
]

CONFIGURATION = ("inputs", "outputs", "terms", "density", "trainable", "damping", "dtype")
WIDEST = np.array([[-float(MAX_WIDTH), float(MAX_WIDTH)]])


def configuration_of(model: Atlas) -> dict[str, Any]:
    """Size and options of a model as JSON."""
    return {key: getattr(model, key) for key in CONFIGURATION} | {"dtype": model.dtype.name}


def table_tensors(model: Atlas, name: str) -> dict[str, NDArray[Any]]:
    """Coefficients and domain of a model; the names of the tensors start with its name."""
    width = table_width(model.outputs, model.terms)
    return {
        f"{name}.table": state_of(model).table[:, :width],  # without the padding for kernels
        f"{name}.domain": model.domain,
    }


def read_bare_model(archive: Archive, value: object, name: str, title: str = "the configuration") -> Atlas:
    """The model of a configuration, without charts, log and memory; messages name it by its title."""
    fields = Fields(value, title, CONFIGURATION)
    inputs, outputs = fields.whole("inputs", least=1), fields.whole("outputs", least=1)
    terms, density = fields.whole("terms"), fields.whole("density", most=MAX_DENSITY)
    dtype = fields.choice("dtype", ("float32", "float64"))
    trainable = fields.choice("trainable", ("finest", "all"))
    domain = read_domain(archive, f"{name}.domain", inputs)
    check_reach(domain, density)
    lattice = Lattice(domain, density, np.dtype(dtype))
    table = read_table(archive, f"{name}.table", lattice, table_width(outputs, terms))
    archive.reserve(padded_size(table))
    damping = fields.number("damping", least=0)
    start = Atlas(inputs, outputs, terms, density, cast(Any, trainable), damping, dtype)
    state = state_of(start).emptied(domain)
    state.table[:, : table.shape[1]] = table
    return model_in(state)


def read_table(archive: Archive, name: str, lattice: Lattice, width: int) -> NDArray[Any]:
    """The coefficients of all functions of a lattice, shape (functions, width).

    Sizes are checked before anything is allocated: the tensor exists already, so a size that agrees with it
    is affordable, also that of the lattice, which counts the functions of each input at each density.
    """
    table = archive.tensor(name, lattice.dtype.name, (None, None))
    if len(table) < splines.ACTIVE * lattice.inputs * (lattice.density + 1):
        raise ValueError(f"tensor {name!r} has {len(table):,} rows, too few for its inputs and densities")
    return archive.tensor(name, lattice.dtype.name, (lattice.row_count, width))


def read_domain(archive: Archive, name: str, inputs: int, most: Domain = WIDEST) -> Domain:
    """A domain that contains the unit cube and lies within another, shape (inputs, 2)."""
    domain = archive.tensor(name, "float64", (inputs, 2))
    if (domain[:, 0] > 0).any() or (domain[:, 1] < 1).any():
        raise ValueError(f"tensor {name!r} leaves out a part of the unit cube")
    if (domain[:, 0] < most[:, 0]).any() or (domain[:, 1] > most[:, 1]).any():
        raise ValueError(f"tensor {name!r} reaches too far")
    return domain


def padded_size(table: NDArray[Any]) -> int:
    """Bytes of a table whose rows are padded as the kernels need them."""
    return len(table) * padded(table.shape[1]) * table.itemsize


def table_width(outputs: int, terms: int) -> int:
    """Length of a table row without padding."""
    return outputs * (2 * terms + 1)
