"""Every compiled function and its constants: with `kernel_cache` the only importer of numba.

Numba's disk cache does not see across files, so nothing compiled lives anywhere else. Equation numbers
refer to docs/math.md. Throughout:

- ``table`` (rows, channels) holds all coefficients: for each density, for each input, its basis
  functions, one row each: λ of them, or more where the domain reaches beyond the unit cube. The four
  functions active at a point are neighbours, so a point needs one contiguous read per input and density.
- A row's channels are, for each output, ``G_1 … G_M, H_1 … H_M, F``, padded with zeros to whole vectors.
- Kernels are dtype-generic: ``array.dtype.type(…)`` keeps float32 arithmetic in float32.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import get_num_threads, prange, types
from numba.extending import intrinsic, models, register_model
from numpy.typing import NDArray

from atlas_splines.model.kernel_cache import compiled

MAE, MSE, HUBER, CROSS_ENTROPY = 0, 1, 2, 3  # losses
LAZY_ADAM, ADAM, SGD = 0, 1, 2  # optimisers

LANES = 8  # channels are padded to a multiple of this
BLOCK = 128  # points evaluated together: their sums stay in the first-level cache
TASK = 8 * BLOCK  # points handed to a thread at a time
MANY = 16 * TASK  # points from which several threads are faster than one

FIRST_DECAY = 0.9  # of Adam's mean of gradients, as usual
SECOND_DECAY = 0.999  # of Adam's mean of squared gradients, as usual
EPSILON = 1e-7  # keeps Adam's steps finite, as usual
BUCKETS = 256  # parts of each input in the index of charts
BIAS_HORIZON = 20_000  # after so many steps the bias corrections are 1 to float32 precision
LINEAR = 0.1  # share of a term that its remainder may be before a constant may enclose it better
PRODUCTS = 64  # terms whose products are formed together: those of 30 players stay in the first-level cache

PARALLEL_LOCK = threading.Lock()  # held by the one call that uses numba's threads
FIRST_PROCESS = os.getpid()  # not that of a fork

# `numpy` division never branches, `contract` allows fused multiply-add; nothing reorders a sum.
exact = compiled(nogil=True, error_model="numpy")
fused = compiled(nogil=True, error_model="numpy", fastmath={"contract"})


class Lanes(types.Type):
    """Eight numbers that are computed together, in a vector register or two.

    The compiler vectorises long loops by itself, but the loops over a row's channels are short: left to
    it they run three times slower, in overlap checks and scalar remainders. So they are written in lanes.
    """

    def __init__(self, scalar):
        self.scalar = scalar
        super().__init__(name=f"Lanes({scalar})")


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    """Data model for numba: lanes are an LLVM vector."""

    def __init__(self, manager, lanes):
        scalar = ir.FloatType() if lanes.scalar == types.float32 else ir.DoubleType()
        super().__init__(manager, lanes, ir.VectorType(scalar, LANES))


def lane_pointer(context, builder, array_type, array, index, vector):
    """Address of array[index] as a pointer to lanes."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


@intrinsic
def load(typing_context, array, index):
    """Lanes array[index : index + 8] of a flat array."""
    lanes = Lanes(array.dtype)

    def codegen(context, builder, signature, arguments):
        pointer = lane_pointer(context, builder, array, *arguments, context.get_value_type(lanes))
        return builder.load(pointer, align=array.dtype.bitwidth // 8)

    return lanes(array, types.intp), codegen


@intrinsic
def store(typing_context, array, index, lanes):
    """array[index : index + 8] = lanes, for a flat array."""

    def codegen(context, builder, signature, arguments):
        pointer = lane_pointer(context, builder, array, *arguments[:2], arguments[2].type)
        builder.store(arguments[2], pointer, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), codegen


def fill_lanes(builder, scalar):
    """Lanes that all hold the same number."""
    position = ir.IntType(32)
    empty = ir.Constant(ir.VectorType(scalar.type, LANES), ir.Undefined)
    first = builder.insert_element(empty, scalar, position(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(position, LANES), [0] * LANES))


@intrinsic
def error_model(typing_context, scalar):
    """Lanes that all hold the same number."""

    def codegen(context, builder, signature, arguments):
        return fill_lanes(builder, arguments[0])

    return Lanes(scalar)(scalar), codegen


@intrinsic
def load_one(typing_context, array, index):
    """Lanes that all hold array[index] of a flat array; an index is never negative."""

    def codegen(context, builder, signature, arguments):
        data = context.make_array(array)(context, builder, arguments[0]).data
        return fill_lanes(builder, builder.load(builder.gep(data, [arguments[1]])))

    return Lanes(array.dtype)(array, types.intp), codegen


@intrinsic
def times(typing_context, a, b):
    """Lanes a·b."""

    def codegen(context, builder, signature, arguments):
        return builder.fmul(*arguments, flags=("contract",))

    return a(a, b), codegen


@intrinsic
def plus(typing_context, a, b):
    """Lanes a + b; with a product it becomes a fused multiply-add."""

    def codegen(context, builder, signature, arguments):
        return builder.fadd(*arguments, flags=("contract",))

    return a(a, b), codegen


@intrinsic
def minus(typing_context, a, b):
    """Lanes a − b."""

    def codegen(context, builder, signature, arguments):
        return builder.fsub(*arguments)

    return a(a, b), codegen


@intrinsic
def over(typing_context, a, b):
    """Lanes a / b."""

    def codegen(context, builder, signature, arguments):
        return builder.fdiv(*arguments)

    return a(a, b), codegen


@intrinsic
def root(typing_context, a):
    """Lanes √a."""

    def codegen(context, builder, signature, arguments):
        vector = arguments[0].type
        name = f"llvm.sqrt.v{LANES}f{a.scalar.bitwidth}"
        declared = builder.module.globals.get(name)
        function = declared or ir.Function(builder.module, ir.FunctionType(vector, [vector]), name)
        return builder.call(function, arguments)

    return a(a), codegen


@intrinsic
def first_lanes(typing_context, a, count):
    """Lanes of a, with zero from position `count` on."""

    def codegen(context, builder, signature, arguments):
        lanes, count = arguments
        counts = fill_lanes(builder, builder.trunc(count, ir.IntType(32)))
        kept = builder.icmp_signed("<", ir.Constant(counts.type, list(range(LANES))), counts)
        return builder.select(kept, lanes, ir.Constant(lanes.type, [0.0] * LANES))

    return a(a, types.intp), codegen


@intrinsic
def total(typing_context, a):
    """Sum of the lanes, by halves."""

    def codegen(context, builder, signature, arguments):
        (lanes,) = arguments
        half = LANES
        while half > 1:
            half //= 2
            swap = [(i + half) % LANES for i in range(LANES)]
            order = ir.Constant(ir.VectorType(ir.IntType(32), LANES), swap)
            lanes = builder.fadd(lanes, builder.shuffle_vector(lanes, lanes, order))
        return builder.extract_element(lanes, ir.IntType(32)(0))

    return a.scalar(a), codegen


@intrinsic
def lowest_bit(typing_context, word):
    """Position of the lowest set bit of a word that has one."""

    def codegen(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.uint64(types.uint64), codegen


class Layout(NamedTuple):
    """Layout of a model's coefficient table, and the slopes of its terms."""

    inputs: int
    outputs: int
    terms: int
    slope: NDArray[
        np.floating
    ]  # (channels,) dA/dchannel over its exponential: ±k⁻²e^(−damping), 1, padding 0
    origins: NDArray[np.int32]  # (densities, inputs) row where cell 0 begins; (0, inputs) on the unit cube


class Charts(NamedTuple):
    """All charts of a model; entry k, or slice start[k] … start[k + 1], belongs to chart k."""

    index: NDArray[np.uint64]  # (inputs, BUCKETS, words) bit k: chart k may reach this part of the input
    low: NDArray[np.floating]  # (inputs,) lower end of the domain, where bucket 0 begins
    buckets: NDArray[np.floating]  # (inputs,) buckets on a unit of the input
    window: NDArray[np.int64]  # (charts,) density of the window
    first: NDArray[np.int32]  # (charts, inputs) first open function
    last: NDArray[np.int32]  # (charts, inputs) last open function
    origin: NDArray[np.floating]  # (charts, inputs) local coordinates are (x − origin)·scale
    scale: NDArray[np.floating]  # (charts, inputs)
    replaces: NDArray[np.floating]  # (charts,) 1 if the chart takes the place of what was there, 0 if it adds
    terms: NDArray[np.int64]  # (charts,)
    table: NDArray[np.floating]  # flat tables, one after the other
    table_start: NDArray[np.int64]
    slope: NDArray[np.floating]  # slopes of the layouts, one after the other
    slope_start: NDArray[np.int64]
    densities: NDArray[np.int64]  # filled densities, one chart after the other
    density_start: NDArray[np.int64]


class Local(NamedTuple):
    """Local terms, contiguous by box, padded to whole lanes by weights of zero."""

    nodes: NDArray[np.int32]  # (nodes, 3) of the k-d tree: input and two children, or -1, box, -1
    cuts: NDArray[np.float32]  # (nodes,) up to and with which a point goes to the first child
    starts: NDArray[np.int64]  # (boxes + 1,) first term of each box, a multiple of LANES
    inputs: NDArray[np.int64]  # (active,) inputs that the terms depend on
    rates: NDArray[np.float32]  # (active,) 1/length of each
    centres: NDArray[np.float32]  # (active, terms) times the rates
    weights: NDArray[np.float32]  # (outputs, terms)
    constants: NDArray[np.float32]  # (boxes, outputs)


class Moments(NamedTuple):
    """Optimiser state, one row for each row of the table."""

    gradient: NDArray[np.floating]  # (rows, channels), zero between batches
    first: NDArray[np.floating]  # (rows, channels)
    second: NDArray[np.floating]  # (rows, channels)
    steps: NDArray[np.int32]  # (rows,) how often the row was moved
    correction: NDArray[np.floating]  # (BIAS_HORIZON,) √(1−β₂ᵗ)/(1−β₁ᵗ)


class Samples(NamedTuple):
    """Training data in the model's dtype."""

    inputs: NDArray[np.floating]  # (samples, inputs)
    targets: NDArray[np.floating]  # (samples, outputs)
    weights: NDArray[np.floating]  # (samples,)
    frozen: NDArray[np.floating]  # (samples, channels) sums of the frozen densities, or (0, channels)
    keep: NDArray[np.floating]  # (samples,) what charts leave of the outputs; (0,) if they leave all
    shift: NDArray[np.floating]  # (samples, outputs) what charts and offsets add; (0, outputs) if nothing


class Step(NamedTuple):
    """Parameters of an optimiser step."""

    loss: int
    optimizer: int
    learning_rate: float
    densities: NDArray[np.int64]  # the densities that are trained
    first_row: int  # their coefficients are in the table from this row on


@exact
def first_row(inputs, density):
    """Row of the table where a density begins: all coarser densities come before it, equation (9)."""
    return inputs * ((4 << density) - 4)


@exact
def weigh(t, weights, q):
    """The four basis weights at t in a cell, equation (3)."""
    real = weights.dtype.type
    u = real(1) - t
    weights[0, q] = u * u * u * real(1 / 6)
    weights[1, q] = (t * t * (real(3) * t - real(6)) + real(4)) * real(1 / 6)
    weights[2, q] = (u * u * (real(3) * u - real(6)) + real(4)) * real(1 / 6)
    weights[3, q] = t * t * t * real(1 / 6)


@exact
def locate(x, inputs, density, rows, weights):
    """First active row and the four basis weights of each coordinate in the unit cube, equation (3)."""
    # x (points·inputs,), rows (points·inputs,), weights (4, points·inputs)
    real = x.dtype.type
    functions = 4 << density
    last_cell = np.int32(functions - 4)
    for q in range(x.size):
        scaled = x[q] * real(functions - 3)
        cell = min(np.int32(scaled), last_cell)
        rows[q] = cell
        weigh(scaled - real(cell), weights, q)
    first = first_row(inputs, density)
    for i in range(x.size // inputs):
        for j in range(inputs):
            rows[i * inputs + j] += first + j * functions


@exact
def cell_of(scaled, cells):
    """Cell of a scaled coordinate on the lattice that goes on beyond the unit cube, equation (26)."""
    return np.int32(np.floor(scaled)) if scaled < cells else np.int32(np.ceil(scaled)) - np.int32(1)


@exact
def locate_beyond(x, origins, density, rows, weights):
    """The same in an extended domain; in the unit cube with the same bits."""
    # x (points·inputs,), origins (inputs,), rows (points·inputs,), weights (4, points·inputs)
    inputs, cells = origins.size, x.dtype.type((4 << density) - 3)
    for i in range(x.size // inputs):
        for j in range(inputs):
            q = i * inputs + j
            scaled = x[q] * cells
            cell = cell_of(scaled, cells)
            rows[q] = origins[j] + cell
            weigh(scaled - x.dtype.type(cell), weights, q)


@exact
def locate_anywhere(x, layout, density, rows, weights):
    """First active row and the four basis weights of each coordinate."""
    if layout.origins.shape[0]:
        locate_beyond(x, layout.origins[density], density, rows, weights)
    else:
        locate(x, layout.inputs, density, rows, weights)


@fused
def weight_lanes(weights, q, stride):
    """The four weights of one coordinate, each in lanes."""
    return (
        load_one(weights, q),
        load_one(weights, q + stride),
        load_one(weights, q + 2 * stride),
        load_one(weights, q + 3 * stride),
    )


@fused
def gather(table, channels, inputs, rows, weights, sums):
    """Add the active coefficients, weighted, to each point's sums: the additive part of (5) and (6)."""
    # table (rows·channels,), rows (points·inputs,), weights (4, ≥ points·inputs), sums (points·channels,)
    stride, weights = weights.shape[1], weights.reshape(-1)
    for i in range(rows.size // inputs):
        for q in range(i * inputs, (i + 1) * inputs):
            w0, w1, w2, w3 = weight_lanes(weights, q, stride)
            first = rows[q] * channels
            for c in range(0, channels, LANES):
                row = first + c
                left = times(w0, load(table, row))
                left = plus(left, times(w1, load(table, row + channels)))
                right = times(w2, load(table, row + 2 * channels))
                right = plus(right, times(w3, load(table, row + 3 * channels)))
                store(sums, i * channels + c, plus(load(sums, i * channels + c), plus(left, right)))


@fused
def scatter(gradient, channels, inputs, rows, weights, slopes):
    """Add each point's slopes, weighted, to the gradient of its active rows: the transpose of `gather`."""
    # gradient (rows·channels,), rows and weights as in `gather`, slopes (points·channels,)
    stride, weights = weights.shape[1], weights.reshape(-1)
    for i in range(rows.size // inputs):
        for q in range(i * inputs, (i + 1) * inputs):
            w0, w1, w2, w3 = weight_lanes(weights, q, stride)
            first = rows[q] * channels
            for c in range(0, channels, LANES):
                row = first + c
                slope = load(slopes, i * channels + c)
                store(gradient, row, plus(load(gradient, row), times(w0, slope)))
                row += channels
                store(gradient, row, plus(load(gradient, row), times(w1, slope)))
                row += channels
                store(gradient, row, plus(load(gradient, row), times(w2, slope)))
                row += channels
                store(gradient, row, plus(load(gradient, row), times(w3, slope)))


@fused
def exponential32(x, result):
    """Exponentials of float32 numbers, to rounding; infinity from 88.37 on, NaN stays NaN."""
    real, low, high, shift = np.float32, np.float32(-87.3), np.float32(88.8), np.float32(1.5 * 2**23)
    for i in range(x.size):
        y = low if x[i] < low else x[i]
        y = high if y > high else y
        # y = k·log 2 + r with |r| ≤ log(2)/2 (Cody and Waite 1980); adding the shift rounds to the integer k,
        # left in the lowest bits; log 2 is split in two parts, the first short enough for k·log 2 to be exact
        shifted = np.float32(y * real(1.4426950409) + shift)
        k = shifted - shift
        r = y - k * real(0.693359375) + k * real(2.12194440e-4)
        # (e^r − 1 − r)/r² by a polynomial with the least maximum error of e^r, 3e-9 relative
        p = real(1.3814477748e-3)
        p = p * r + real(8.3687801281e-3)
        p = p * r + real(4.1668394025e-2)
        p = p * r + real(1.6666520110e-1)
        p = p * r + real(4.9999993413e-1)
        power = np.int32((shifted.view(np.int32) << 23) + np.int32(127 << 23)).view(np.float32)  # 2^k
        result[i] = (p * r * r + r + real(1)) * power


@exact
def exponential64(x, result):
    """Exponentials of float64 numbers."""
    for i in range(x.size):
        result[i] = np.exp(x[i])


@fused
def gaussian_kernels(values, begin, point_squares, centre_squares):
    """Gaussian radial basis functions exp(a·c − a²/2 − c²/2), in place of products a·c of points and centres.

    The exponential is that of `exponential32` with more terms, 2e-16 relative; NumPy's is many times slower.
    """
    # values (points, features) with products from column `begin` on, point_squares (points,),
    # centre_squares (functions,); columns of a whole array are contiguous, so that the loop is vectorised
    low, shift = -200.0, 1.5 * 2.0**52  # products of smaller ones with weights would be subnormal, and slow
    for i in range(values.shape[0]):
        row, half = values[i, begin : begin + centre_squares.size], 0.5 * point_squares[i]
        for j in range(row.size):
            y = row[j] - half - 0.5 * centre_squares[j]
            y = low if y < low else y
            y = 0.0 if y > 0.0 else y  # rounding must not make the kernel larger than 1
            shifted = y * 1.4426950408889634 + shift
            k = shifted - shift
            r = y - k * 0.693145751953125 - k * 1.4286068203094172e-6
            p = 1 / 479001600
            p = p * r + 1 / 39916800
            p = p * r + 1 / 3628800
            p = p * r + 1 / 362880
            p = p * r + 1 / 40320
            p = p * r + 1 / 5040
            p = p * r + 1 / 720
            p = p * r + 1 / 120
            p = p * r + 1 / 24
            p = p * r + 1 / 6
            p = p * r + 0.5
            power = np.int64((np.float64(shifted).view(np.int64) << 52) + np.int64(1023 << 52))
            row[j] = (p * r * r + r + 1.0) * power.view(np.float64)


@exact
def whole_multiples(values, root, unit, result):
    """Values clipped to ±1, times the root of each row's weight, quantised; returns whether all are finite.

    One pass over what is the largest array of all. Adding and taking away 1.5·2⁵² rounds as `rint` does.
    """
    # values and result (rows, columns), root (rows,)
    shift, infinite = 1.5 * 2.0**52, 0
    for i in range(values.shape[0]):
        row, own, factor = values[i], result[i], root[i]
        for j in range(row.size):
            x = row[j]
            infinite |= x - x != 0.0
            x = -1.0 if x < -1.0 else x
            x = 1.0 if x > 1.0 else x
            own[j] = (x * factor * unit + shift) - shift
    return infinite == 0


@exact
def write_splines(points, inputs, densities, begins, values):
    """Write all basis functions of splines to the columns of a table; density -1 is the coordinate itself.

    With the operations of `splines.active`, in their order, and so with its bits; row by row, as the table is
    the largest array of all.
    """
    # points (points, inputs), inputs, densities, begins (splines,), values (points, features)
    for i in range(points.shape[0]):
        for s in range(inputs.size):
            x, begin = points[i, inputs[s]], begins[s]
            if densities[s] < 0:
                values[i, begin] = x
                continue
            last = (4 << densities[s]) - 4
            scaled = x * (last + 1)
            cell = np.int64(scaled) if scaled < last + 1 else last  # that of NaN, too
            t = scaled - cell
            u, square = 1 - t, t * t
            cube = square * t
            for k in range(begin, begin + last + 4):
                values[i, k] = 0.0
            values[i, begin + cell] = u * u * u / 6
            values[i, begin + cell + 1] = (3 * cube - 6 * square + 4) / 6
            values[i, begin + cell + 2] = (-3 * cube + 3 * square + 3 * t + 1) / 6
            values[i, begin + cell + 3] = cube / 6


@exact
def spline_sums(column, targets, density, banded, moment):
    """Add the sums Σφφᵀ and Σφyᵀ of the splines of one input: a quarter of the time of `bincount`."""
    # column (rows,) in the unit cube, targets (rows, outputs), moment (functions, outputs), banded
    # (functions, 4): row b has the products of function b with functions b … b + 3
    last = (4 << density) - 4
    weights = np.empty((4, 1))
    for i in range(column.size):
        scaled = column[i] * (last + 1)
        cell = min(int(scaled), last)
        weigh(scaled - cell, weights, 0)
        for a in range(4):
            for b in range(a + 1):
                banded[cell + b, a - b] += weights[a, 0] * weights[b, 0]
            for p in range(targets.shape[1]):
                moment[cell + a, p] += weights[a, 0] * targets[i, p]


@exact
def mix_rows(hashes, table):
    """Update 64-bit hashes of rows by their numbers (SplitMix64, Steele et al. 2014), in place."""
    # hashes (rows,), table (rows, columns)
    golden, missing = np.uint64(0x9E3779B97F4A7C15), np.uint64(0x7FF8000000000000)
    one, two = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
    for i in range(table.shape[0]):
        state = hashes[i]
        for j in range(table.shape[1]):
            x = np.float64(table[i, j] + 0.0)  # -0.0 is 0.0
            bits = missing if x != x else x.view(np.uint64)  # all NaN have one hash
            state = (state + golden) ^ bits
            state = (state ^ (state >> np.uint64(30))) * one
            state = (state ^ (state >> np.uint64(27))) * two
            state = state ^ (state >> np.uint64(31))
        hashes[i] = state


@exact
def place_between(table, knots, fill, values, points):
    """Piecewise linear interpolation between knots, extrapolated by the outermost segments.

    Between knots it equals `np.interp` bit for bit, in less time; a missing number becomes that of `fill`.
    """
    # table (rows, columns), knots (columns, knots), fill (columns,), values (knots,), points (rows, inputs)
    columns, count = knots.shape
    slopes = np.empty((columns, count - 1))
    for j in range(columns):
        for k in range(count - 1):
            slopes[j, k] = (values[k + 1] - values[k]) / (knots[j, k + 1] - knots[j, k])
    for i in range(table.shape[0]):
        for j in range(columns):
            x, own = table[i, j], knots[j]
            x = fill[j] if x != x else x
            if x < own[0]:
                points[i, j] = values[0] + (x - own[0]) * slopes[j, 0]
                continue
            if x > own[count - 1]:
                points[i, j] = values[count - 1] + (x - own[count - 1]) * slopes[j, count - 2]
                continue
            low, left = 0, count  # the last knot that is not above x is among so many from here on
            while left > 1:
                half = left >> 1
                low += half * (own[low + half] <= x)  # no branch, which would be guessed wrong half the time
                left -= half
            at_knot = low == count - 1 or own[low] == x
            points[i, j] = values[low] if at_knot else slopes[j, low] * (x - own[low]) + values[low]


@exact
def exponential(x, result):
    """Exponentials of a flat array; exp(0) is exactly 1, which expansion relies on."""
    if x.itemsize == 4:
        exponential32(x, result)
    else:
        exponential64(x, result)


@fused
def sums_to_outputs(layout, sums, points, exponentials, out):
    """Exponentials and outputs of the sums F, G, H, equation (6)."""
    # sums (≥ points·channels,), exponentials (≥ points·channels + LANES,), out (≥ points, outputs)
    channels, terms, width = layout.slope.size, layout.terms, 2 * layout.terms + 1
    exponential(sums[: points * channels], exponentials)
    for p in range(layout.outputs):
        slope_of_f = layout.slope[p * width + 2 * terms]
        for i in range(points):
            g = i * channels + p * width
            # term k always goes to lane k mod 8, so that more terms do not change the order of the sum;
            # a pair is subtracted first, so that an untrained one adds exactly zero, equation (8)
            pairs = error_model(out.dtype.type(0))
            for block in range((terms + LANES - 1) // LANES):
                k = block * LANES
                pair = minus(load(exponentials, g + k), load(exponentials, g + k + terms))
                pair = times(load(layout.slope, p * width + k), pair)
                pairs = plus(pairs, first_lanes(pair, terms - k))
            out[i, p] = slope_of_f * sums[g + 2 * terms] + total(pairs)
            exponentials[g + 2 * terms] = 1  # F is in no exponential: its slope is constant


@exact
def sum_splines(table, layout, densities, inputs, rows, weights, sums):
    """Add the splines of some densities at a block of points to their sums, equation (5)."""
    # table (rows·channels,), inputs (points·inputs,), rows and weights scratch, sums (≥ points·channels,)
    used = inputs.size
    for density in densities:
        locate_anywhere(inputs, layout, density, rows[:used], weights)
        gather(table, layout.slope.size, layout.inputs, rows[:used], weights, sums)


@exact
def predict_range(table, layout, densities, inputs, out, start, stop):
    """Evaluate rows start … stop, a block at a time."""
    # table (rows, channels), inputs (points, inputs), out (points, outputs)
    rows = np.empty(BLOCK * layout.inputs, np.int32)
    weights = np.empty((4, BLOCK * layout.inputs), table.dtype)
    sums = np.empty(BLOCK * table.shape[1], table.dtype)
    exponentials = np.empty(BLOCK * table.shape[1] + LANES, table.dtype)
    for begin in range(start, stop, BLOCK):
        end = min(begin + BLOCK, stop)
        sums[:] = 0
        x = inputs[begin:end].reshape(-1)
        sum_splines(table.reshape(-1), layout, densities, x, rows, weights, sums)
        sums_to_outputs(layout, sums, end - begin, exponentials, out[begin:end])


@exact
def predict_serial(table, layout, densities, inputs, out):
    """Evaluate all rows on one thread."""
    predict_range(table, layout, densities, inputs, out, 0, inputs.shape[0])


@compiled(nogil=True, error_model="numpy", parallel=True)
def predict_parallel(table, layout, densities, inputs, out):
    """Evaluate all rows on numba's threads."""
    points = inputs.shape[0]
    for task in prange((points + TASK - 1) // TASK):
        predict_range(table, layout, densities, inputs, out, task * TASK, min((task + 1) * TASK, points))


def predict(
    table: NDArray[np.floating],
    layout: Layout,
    densities: NDArray[np.int64],
    inputs: NDArray[np.floating],
    out: NDArray[np.floating],
) -> None:
    """Evaluate all rows, in parallel when there are many; the bits do not depend on the threads."""
    with use_threads(inputs.shape[0]) as parallel:
        (predict_parallel if parallel else predict_serial)(table, layout, densities, inputs, out)


@contextmanager
def use_threads(rows: int) -> Iterator[bool]:
    """Whether to use numba's threads: for many rows, one call at a time, and not in a forked process.

    Some of numba's threading layers survive neither calls from two threads nor a fork.
    """
    wanted = rows >= MANY and get_num_threads() > 1 and os.getpid() == FIRST_PROCESS
    if not (wanted and PARALLEL_LOCK.acquire(blocking=False)):
        yield False
        return
    try:
        yield True
    finally:
        PARALLEL_LOCK.release()


@exact
def find_charts(charts, points, found):
    """Bits of the charts that may reach each point: the charts listed for all of its coordinates."""
    # points (points, inputs), found (≥ points, words)
    inputs, words = points.shape[1], charts.index.shape[2]
    for i in range(points.shape[0]):
        for word in range(words):
            bits = ~np.uint64(0)
            for j in range(inputs):
                bucket = np.int64((points[i, j] - charts.low[j]) * charts.buckets[j])
                bits &= charts.index[j, min(bucket, BUCKETS - 1), word]
                if bits == 0:
                    break
            found[i, word] = bits


@exact
def window_at(charts, k, point):
    """Window of chart k at a point, equation (22): exactly 0 outside its box, exactly 1 where all is open."""
    real = point.dtype.type
    cells = real((4 << charts.window[k]) - 3)
    window = real(1)
    for j in range(point.size):
        scaled = point[j] * cells
        cell = cell_of(scaled, cells)
        first, last = charts.first[k, j], charts.last[k, j]
        if cell + 3 < first or cell > last:
            return real(0)
        if cell >= first and cell + 3 <= last:
            continue
        t = scaled - real(cell)
        u = real(1) - t
        share = real(0)
        if first <= cell <= last:
            share += u * u * u
        if first <= cell + 1 <= last:
            share += t * t * (real(3) * t - real(6)) + real(4)
        if first <= cell + 2 <= last:
            share += u * u * (real(3) * u - real(6)) + real(4)
        if first <= cell + 3 <= last:
            share += t * t * t
        window *= share * real(1 / 6)
    return window


@exact
def enter_chart(charts, k, points, found, chosen, windows, x):
    """List the points that chart k reaches, with their windows and local coordinates; returns how many."""
    inputs, count = points.shape[1], 0
    word, bit = k // 64, np.uint64(1) << np.uint64(k % 64)
    for i in range(points.shape[0]):
        if found[i, word] & bit == 0:
            continue
        window = window_at(charts, k, points[i])
        if window == 0:
            continue
        chosen[count], windows[count] = i, window
        for j in range(inputs):
            local = (points[i, j] - charts.origin[k, j]) * charts.scale[k, j]
            x[count * inputs + j] = min(max(local, x.dtype.type(0)), x.dtype.type(1))
        count += 1
    return count


@exact
def apply_chart(charts, k, count, chosen, windows, x, scratch, out):
    """Blend chart k into the outputs of the chosen points, equation (23)."""
    # x (count·inputs,) local coordinates, out (points, outputs)
    rows, weights, sums, exponentials, result = scratch
    outputs, inputs = out.shape[1], charts.first.shape[1]
    slope = charts.slope[charts.slope_start[k] : charts.slope_start[k + 1]]
    layout = Layout(inputs, outputs, charts.terms[k], slope, charts.first[:0])
    table = charts.table[charts.table_start[k] : charts.table_start[k + 1]]
    densities = charts.densities[charts.density_start[k] : charts.density_start[k + 1]]
    sums[: count * slope.size] = 0
    sum_splines(table, layout, densities, x, rows, weights, sums)
    sums_to_outputs(layout, sums, count, exponentials, result)
    for c in range(count):
        i = chosen[c]
        keep = out.dtype.type(1) - windows[c] * charts.replaces[k]
        for p in range(outputs):
            out[i, p] = keep * out[i, p] + windows[c] * result[c, p]


@exact
def add_charts_range(charts, points, out, start, stop):
    """Blend all charts into rows start … stop, a task at a time, always in the order of the charts.

    A chart is entered once for each task, so a task has more points than a block.
    """
    # points (points, inputs), out (points, outputs)
    inputs, outputs, words = points.shape[1], out.shape[1], charts.index.shape[2]
    found = np.empty((TASK, words), np.uint64)
    chosen, windows = np.empty(TASK, np.int64), np.empty(TASK, out.dtype)
    x, widest = np.empty(TASK * inputs, out.dtype), np.diff(charts.slope_start).max()
    scratch = (
        np.empty(TASK * inputs, np.int32),
        np.empty((4, TASK * inputs), out.dtype),
        np.empty(TASK * widest, out.dtype),
        np.empty(TASK * widest + LANES, out.dtype),
        np.empty((TASK, outputs), out.dtype),
    )
    for begin in range(start, stop, TASK):
        end = min(begin + TASK, stop)
        task, task_out = points[begin:end], out[begin:end]
        find_charts(charts, task, found)
        for word in range(words):
            near = np.uint64(0)
            for i in range(end - begin):
                near |= found[i, word]
            while near:
                k = 64 * word + np.int64(lowest_bit(near))
                near &= near - np.uint64(1)
                count = enter_chart(charts, k, task, found, chosen, windows, x)
                if count:
                    apply_chart(charts, k, count, chosen, windows, x[: count * inputs], scratch, task_out)


@exact
def add_charts_serial(charts, points, out):
    """Add the charts to all rows on one thread."""
    add_charts_range(charts, points, out, 0, points.shape[0])


@compiled(nogil=True, error_model="numpy", parallel=True)
def add_charts_parallel(charts, points, out):
    """Add the charts to all rows on numba's threads."""
    rows = points.shape[0]
    for task in prange((rows + TASK - 1) // TASK):
        add_charts_range(charts, points, out, task * TASK, min((task + 1) * TASK, rows))


def add_charts(charts: Charts, points: NDArray[np.floating], out: NDArray[np.floating]) -> None:
    """Blend all charts into outputs, in parallel for many rows; bits do not depend on the threads."""
    with use_threads(points.shape[0]) as parallel:
        (add_charts_parallel if parallel else add_charts_serial)(charts, points, out)


@exact
def find_boxes(nodes, cuts, points, boxes):
    """Number of the box of each point: from the root of the k-d tree to a leaf."""
    # nodes (nodes, 3), cuts (nodes,), points (points, inputs) of the unit cube, boxes (points,)
    for i in range(points.shape[0]):
        node = 0
        while nodes[node, 0] >= 0:
            node = nodes[node, 1 if points[i, nodes[node, 0]] <= cuts[node] else 2]
        boxes[i] = nodes[node, 1]


@fused
def laplace_lower(centres, begin, kernel):
    """Lower triangle of 1 + exp(−Σ_j |z_ij − z_kj|), equation (48) without noise: rows from `begin` on."""
    # centres (inputs, rows) over their length scales; kernel (rows − begin, rows), whose rest stays as it is
    rows = centres.shape[1]
    distances, values = np.empty(rows, np.float32), np.empty(rows, np.float32)
    for i in range(begin, rows):
        distances[:i] = 0
        for j in range(centres.shape[0]):
            row, own = centres[j], centres[j, i]
            for k in range(i):
                distances[k] -= abs(row[k] - own)
        exponential32(distances[:i], values)
        for k in range(i):
            kernel[i - begin, k] = 1.0 + values[k]
        kernel[i - begin, i] = 2.0


@fused
def laplace_sample(points, rates, variance, values, covariance):
    """Values of the kernel between points, exp(−Σ_j rate_j·|x_ij − x_kj|), and variance · (1 + value).

    Both below the diagonal alone: what lies above is neither read nor written.
    """
    # points (inputs, rows), rates (inputs,), values (rows, rows) in float32, covariance (rows, rows)
    rows = points.shape[1]
    distances = np.empty(rows, np.float32)
    for i in range(rows):
        distances[:i] = 0
        for j in range(points.shape[0]):
            row, own, rate = points[j], points[j, i], rates[j]
            for k in range(i):
                distances[k] -= rate * abs(row[k] - own)
        for k in range(i):  # products with less are subnormal in float32: a hundred times as slow
            distances[k] = max(distances[k], np.float32(-60))
        exponential32(distances[:i], values[i])
        for k in range(i):
            covariance[i, k] = variance * (1.0 + values[i, k])


@fused
def laplace_slopes(points, values, inverse, solved, along, sums):
    """Sums over pairs below the diagonal for the gradient of the marginal likelihood of a sample.

    With W = aaᵀ − outputs·C⁻¹ and k the values of the kernel, `along` gets Σ_i W_ik·k_ik·|x_ij − x_kj| for
    each input j and point k, and `sums` Σ W·k and Σ W.
    """
    # points and along (inputs, rows), values and inverse (rows, rows), solved (outputs, rows), sums (2,)
    rows, outputs = points.shape[1], solved.shape[0]
    between, pulls = np.empty(rows), np.empty(rows, np.float32)
    along[:] = 0
    by_value, alone = np.zeros(rows), np.zeros(rows)
    for i in range(rows):
        for k in range(i):
            between[k] = -outputs * inverse[i, k]
        for p in range(outputs):
            own, others = solved[p, i], solved[p]
            for k in range(i):
                between[k] += own * others[k]
        for k in range(i):
            alone[k] += between[k]
            by_value[k] += between[k] * values[i, k]
            pulls[k] = between[k] * values[i, k]
        for j in range(points.shape[0]):
            row, own32, out = points[j], points[j, i], along[j]
            for k in range(i):
                out[k] += pulls[k] * abs(row[k] - own32)
    sums[0], sums[1] = by_value.sum(), alone.sum()


@fused
def add_local_range(local, points, boxes, order, out, start, stop):
    """Add local terms to the outputs of points order[start:stop]; points of a box are neighbours there."""
    # points (points, inputs), boxes and order (points,), out (points, outputs)
    longest = np.diff(local.starts).max()
    distances, values = np.empty(longest, np.float32), np.empty(longest, np.float32)
    terms, weights = local.centres.shape[1], local.weights.reshape(-1)
    for place in range(start, stop):
        i = order[place]
        first, last = local.starts[boxes[i]], local.starts[boxes[i] + 1]
        own = distances[: last - first]
        own[:] = 0
        for a in range(local.inputs.size):
            z, row = points[i, local.inputs[a]] * local.rates[a], local.centres[a, first:last]
            for k in range(row.size):
                own[k] -= abs(row[k] - z)
        exponential32(own, values)
        for p in range(out.shape[1]):
            sums = error_model(np.float32(0))
            for k in range(0, own.size, LANES):
                sums = plus(sums, times(load(values, k), load(weights, p * terms + first + k)))
            out[i, p] += local.constants[boxes[i], p] + total(sums)


@exact
def add_local_serial(local, points, boxes, order, out):
    """Add local terms to all rows on one thread."""
    add_local_range(local, points, boxes, order, out, 0, points.shape[0])


@compiled(nogil=True, error_model="numpy", parallel=True)
def add_local_parallel(local, points, boxes, order, out):
    """Add local terms to all rows on numba's threads."""
    rows = points.shape[0]
    for task in prange((rows + TASK - 1) // TASK):
        add_local_range(local, points, boxes, order, out, task * TASK, min((task + 1) * TASK, rows))


def add_local_terms(
    local: Local,
    points: NDArray[np.float32],
    boxes: NDArray[np.int32],
    out: NDArray[np.floating],
) -> None:
    """Add local terms, in parallel when there are many rows; bits do not depend on the threads."""
    order = np.argsort(boxes, kind="stable")  # the terms of a box stay in the cache for all of its points
    with use_threads(len(points)) as parallel:
        (add_local_parallel if parallel else add_local_serial)(local, points, boxes, order, out)


@exact
def frozen_sums(table, layout, densities, inputs, sums):
    """Sums of the frozen densities: computed once, so that a step costs the same at any density."""
    # inputs (points, inputs), sums (points, channels)
    rows = np.empty(BLOCK * layout.inputs, np.int32)
    weights = np.empty((4, BLOCK * layout.inputs), table.dtype)
    for begin in range(0, inputs.shape[0], BLOCK):
        x = inputs[begin : begin + BLOCK].reshape(-1)
        total = sums[begin : begin + BLOCK].reshape(-1)
        sum_splines(table.reshape(-1), layout, densities, x, rows, weights, total)


@exact
def batch_loss(loss, samples, batch, out):
    """Weighted sum of the losses of a batch; replaces its outputs by the slopes of the weighted mean."""
    # batch (points,), out (≥ points, outputs)
    outputs, real, charted = out.shape[1], out.dtype.type, samples.keep.size > 0
    total_weight = 0.0
    for i in range(batch.size):
        total_weight += samples.weights[batch[i]]
    share = 1.0 if loss == CROSS_ENTROPY else 1.0 / outputs  # errors are averaged over the outputs
    factor = real(share / total_weight)
    value = 0.0
    for i in range(batch.size):
        row = batch[i]
        weight = samples.weights[row]
        keep = samples.keep[row] if charted else real(1)
        if charted:
            for p in range(outputs):
                out[i, p] = keep * out[i, p] + samples.shift[row, p]
        if loss == CROSS_ENTROPY:
            value += weight * cross_entropy(out[i], samples.targets[row])
        else:
            for p in range(outputs):
                value += weight * error_loss(loss, out, i, p, samples.targets[row, p])
        for p in range(outputs):
            out[i, p] *= weight * factor * keep
    return share * value


@exact
def error_loss(loss, out, i, p, target):
    """Loss of one output; replaces it by the derivative."""
    real = out.dtype.type
    error = out[i, p] - target
    size = abs(error)
    if loss == MSE:
        out[i, p] = real(2) * error
        return error * error
    if loss == HUBER and size < real(1):
        out[i, p] = error
        return real(0.5) * error * error
    out[i, p] = np.sign(error)
    return size - real(0.5) if loss == HUBER else size


@exact
def cross_entropy(scores, target):
    """Softmax cross-entropy of one sample; replaces its scores by probabilities minus targets."""
    highest = scores.max()
    total = 0.0
    for p in range(scores.size):
        total += np.exp(scores[p] - highest)
    value = 0.0
    for p in range(scores.size):
        log_probability = scores[p] - highest - np.log(total)
        value -= target[p] * log_probability
        scores[p] = np.exp(log_probability) - target[p]
    return value


@fused
def slopes_of_sums(layout, slopes_of_outputs, points, slopes):
    """Chain rule through (6): from each channel's exponential to the loss's slope in its sum, in place."""
    # slopes_of_outputs (≥ points, outputs), slopes (≥ points·channels,)
    channels, width = layout.slope.size, 2 * layout.terms + 1
    if layout.outputs == 1:
        for i in range(points):
            factor = error_model(slopes_of_outputs[i, 0])
            for c in range(0, channels, LANES):
                slope = times(factor, load(layout.slope, c))
                store(slopes, i * channels + c, times(slope, load(slopes, i * channels + c)))
        return
    for i in range(points):
        for c in range(channels):
            output = min(c // width, layout.outputs - 1)  # the padding has slope zero
            slopes[i * channels + c] *= slopes_of_outputs[i, output] * layout.slope[c]


@exact
def mark(rows, marks, words, count):
    """Set the bits of four rows for each entry, and list the words that were empty; returns how many."""
    four = np.uint64(15)
    for row in rows:
        word, bit = row >> 6, np.uint64(row & 63)
        words[count] = word
        count += marks[word] == 0
        marks[word] |= four << bit
        overhang = (four >> np.uint64(1)) >> (np.uint64(63) - bit)  # the bits that do not fit
        if overhang:
            words[count] = word + 1
            count += marks[word + 1] == 0
            marks[word + 1] |= overhang
    return count


@exact
def unmark(marks, words, rows):
    """List the rows whose bits are set in the listed words, and clear them; returns how many there are."""
    count = 0
    for word in words:
        bits = marks[word]
        marks[word] = 0
        while bits:
            rows[count] = 64 * word + np.int64(lowest_bit(bits))
            count += 1
            bits &= bits - np.uint64(1)
    return count


@fused
def adam_rows(table, moments, step, rows):
    """One Adam step of the listed rows, equation (20); each row's bias correction counts its own steps."""
    channels, real = table.shape[1], table.dtype.type
    table, gradient = table.reshape(-1), moments.gradient.reshape(-1)
    first, second = moments.first.reshape(-1), moments.second.reshape(-1)
    keep_first, take_first = error_model(real(FIRST_DECAY)), error_model(real(1 - FIRST_DECAY))
    keep_second, take_second = error_model(real(SECOND_DECAY)), error_model(real(1 - SECOND_DECAY))
    epsilon, zero = error_model(real(EPSILON)), error_model(real(0))
    for row in rows:
        count = min(moments.steps[row] + 1, BIAS_HORIZON - 1)
        moments.steps[row] = count
        rate = error_model(-real(step.learning_rate) * moments.correction[count])
        for c in range(row * channels, (row + 1) * channels, LANES):
            g = load(gradient, c)
            m = plus(times(keep_first, load(first, c)), times(take_first, g))
            v = plus(times(keep_second, load(second, c)), times(take_second, times(g, g)))
            store(first, c, m)
            store(second, c, v)
            store(table, c, plus(load(table, c), over(times(rate, m), plus(root(v), epsilon))))
            store(gradient, c, zero)


@fused
def sgd_rows(table, moments, step, rows):
    """One step of plain gradient descent of the listed rows."""
    for row in rows:
        for c in range(table.shape[1]):
            table[row, c] -= table.dtype.type(step.learning_rate) * moments.gradient[row, c]
            moments.gradient[row, c] = 0


@exact
def train_batches(table, layout, moments, samples, order, batch_size, step):
    """Train on the samples in the given order, a batch at a time; returns the weighted sum of losses."""
    inputs, channels, densities = layout.inputs, table.shape[1], step.densities
    flat_table, flat_gradient = table.reshape(-1), moments.gradient.reshape(-1)
    # scratch, filled anew by each batch
    size = min(batch_size, order.size)
    x = np.empty(size * inputs, table.dtype)
    rows = np.empty((densities.size, size * inputs), np.int32)
    weights = np.empty((densities.size, 4, size * inputs), table.dtype)
    sums = np.empty(size * channels, table.dtype)
    slopes = np.empty(size * channels + LANES, table.dtype)  # of the sums; first their exponentials
    out = np.empty((size, layout.outputs), table.dtype)
    marks = np.zeros(table.shape[0] // 64 + 2, np.uint64)
    words = np.empty(marks.size + 1, np.int64)  # one more, for `mark` writes before it counts
    touched = np.empty(min(table.shape[0], 4 * rows.size), np.int32)
    every_row = np.arange(step.first_row, table.shape[0]).astype(np.int32)  # what dense Adam moves

    loss = 0.0
    for begin in range(0, order.size, batch_size):
        batch = order[begin : begin + batch_size]
        points, used = batch.size, batch.size * inputs
        start_batch(samples, batch, x, sums)
        for d in range(densities.size):
            locate_anywhere(x[:used], layout, densities[d], rows[d, :used], weights[d])
            gather(flat_table, channels, inputs, rows[d, :used], weights[d], sums)
        sums_to_outputs(layout, sums, points, slopes, out)
        loss += batch_loss(step.loss, samples, batch, out)
        slopes_of_sums(layout, out, points, slopes)
        marked = 0
        for d in range(densities.size):
            scatter(flat_gradient, channels, inputs, rows[d, :used], weights[d], slopes)
            marked = mark(rows[d, :used], marks, words, marked)
        count = unmark(marks, words[:marked], touched)
        if step.optimizer == SGD:
            sgd_rows(table, moments, step, touched[:count])
        else:
            adam_rows(table, moments, step, every_row if step.optimizer == ADAM else touched[:count])
    return loss


@exact
def start_batch(samples, batch, x, sums):
    """Copy the inputs of a batch, and start its sums from those of the frozen densities."""
    # x (≥ points·inputs,), sums (≥ points·channels,)
    inputs, channels = samples.inputs.shape[1], samples.frozen.shape[1]
    for i in range(batch.size):
        for j in range(inputs):
            x[i * inputs + j] = samples.inputs[batch[i], j]
    if samples.frozen.shape[0] == 0:
        sums[: batch.size * channels] = 0
        return
    for i in range(batch.size):
        for c in range(channels):
            sums[i * channels + c] = samples.frozen[batch[i], c]


@fused
def is_silent(values, means, begin, end):
    """Whether some player multiplies all terms of a block by zero, in the row and in the reference."""
    # values and means (players, terms)
    for p in range(values.shape[0]):
        largest = 0.0
        for k in range(begin, end):
            largest = max(largest, abs(values[p, k]), abs(means[p, k]))
        if largest == 0.0:
            return True
    return False


@fused
def shapley_sums(values, means, coefficients, nodes, weights, sums):
    """Add Shapley values of products Σ_k c_k Π_p v_pk against each reference, equation (60), to sums.

    Products of all players but one are a prefix times a suffix: a factor may be zero.
    """
    # values (rows, players, terms), means (references, players, terms), coefficients (terms, outputs),
    # nodes and weights (nodes,), sums (rows, players, outputs)
    players, terms = values.shape[1:]
    mixed, before = np.empty((players, PRODUCTS)), np.empty((players, PRODUCTS))
    apart, found = np.empty((players, PRODUCTS)), np.empty((players, PRODUCTS))
    after = np.empty(PRODUCTS)
    for i in range(values.shape[0]):
        for r in range(means.shape[0]):
            for begin in range(0, terms, PRODUCTS):
                end = min(begin + PRODUCTS, terms)
                size = end - begin
                if is_silent(values[i], means[r], begin, end):
                    continue
                for p in range(players):
                    row, mean, gap, total = values[i, p], means[r, p], apart[p], found[p]
                    for k in range(size):
                        gap[k] = row[begin + k] - mean[begin + k]
                        total[k] = 0.0
                for q in range(nodes.size):
                    t = nodes[q]
                    after[:] = 1.0
                    for p in range(players):
                        mean, gap, own, prefix = means[r, p], apart[p], mixed[p], before[p]
                        for k in range(size):
                            prefix[k] = after[k]
                            own[k] = mean[begin + k] + t * gap[k]
                            after[k] *= own[k]
                    after[:] = weights[q]
                    for p in range(players - 1, -1, -1):
                        own, prefix, total = mixed[p], before[p], found[p]
                        for k in range(size):
                            total[k] += prefix[k] * after[k]
                            after[k] *= own[k]
                for p in range(players):
                    gap, total = apart[p], found[p]
                    for o in range(coefficients.shape[1]):
                        part = 0.0
                        for k in range(size):
                            part += gap[k] * total[k] * coefficients[begin + k, o]
                        sums[i, p, o] += part


@fused
def shapley_pair_sums(values, means, coefficients, nodes, weights, sums):
    """Add the Shapley interactions of all pairs of players, equation (61), to both triangles of sums."""
    # as in `shapley_sums`; sums (rows, players, players, outputs)
    players, terms = values.shape[1:]
    mixed, before = np.empty((players, PRODUCTS)), np.empty((players, PRODUCTS))
    after, apart = np.empty((players + 1, PRODUCTS)), np.empty((players, PRODUCTS))
    between = np.empty(PRODUCTS)
    for i in range(values.shape[0]):
        for r in range(means.shape[0]):
            for begin in range(0, terms, PRODUCTS):
                end = min(begin + PRODUCTS, terms)
                size = end - begin
                if is_silent(values[i], means[r], begin, end):
                    continue
                for p in range(players):
                    for k in range(size):
                        apart[p, k] = values[i, p, begin + k] - means[r, p, begin + k]
                for q in range(nodes.size):
                    between[:] = weights[q]
                    for p in range(players):
                        for k in range(size):
                            mixed[p, k] = means[r, p, begin + k] + nodes[q] * apart[p, k]
                            before[p, k] = between[k]
                            between[k] *= mixed[p, k]
                    after[players] = 1.0
                    for p in range(players - 1, -1, -1):
                        for k in range(size):
                            after[p, k] = after[p + 1, k] * mixed[p, k]
                    for p in range(players):
                        for k in range(size):
                            between[k] = before[p, k] * apart[p, k]
                        for other in range(p + 1, players):
                            gap, rest, own = apart[other], after[other + 1], mixed[other]
                            for o in range(coefficients.shape[1]):
                                part = 0.0
                                for k in range(size):
                                    part += between[k] * gap[k] * rest[k] * coefficients[begin + k, o]
                                sums[i, p, other, o] += part
                                sums[i, other, p, o] += part
                            for k in range(size):
                                between[k] *= own[k]


@fused
def local_enclosures(coefficients, centres, rates, low, high, middles, halves, sums):
    """Add first-order enclosures of Laplace kernels in boxes over regions, equation (63), to sums.

    A kernel e^g with g = −Σ_j rate_j·|x_j − c_j| differs over a region from its linear part at the middle by
    no more than |v|·(Σ_j 2·rate_j·max(half_j − |m_j − c_j|, 0) + e^ρρ²/2), where ρ = Σ_j rate_j·half_j. Where
    that is more than half of what it varies by, it is enclosed by a constant.
    """
    # coefficients (terms,), centres, low and high (terms, inputs), rates (inputs,), middles and halves
    # (regions, inputs); sums (regions, inputs + 3): value, slopes, remainder, sum of absolute values
    inputs = rates.size
    for r in range(middles.shape[0]):
        reach = 0.0
        for j in range(inputs):
            reach += rates[j] * halves[r, j]
        growth = np.exp(min(reach, 600.0))
        curved = growth * reach * reach / 2
        for k in range(coefficients.size):
            distance, nearest, kinked, meets, inside = 0.0, 0.0, 0.0, True, True
            for j in range(inputs):
                m, h = middles[r, j], halves[r, j]
                if m + h <= low[k, j] or m - h > high[k, j]:
                    meets = False
                    break
                if m - h <= low[k, j] or m + h > high[k, j]:
                    inside = False
                apart = abs(m - centres[k, j])
                distance += rates[j] * apart
                if apart < h:
                    kinked += 2 * rates[j] * (h - apart)
                else:
                    nearest += rates[j] * (apart - h)
            if not meets:
                continue
            value = coefficients[k] * np.exp(-distance)
            rest = abs(value) * (kinked + curved)
            sums[r, inputs + 2] += growth * abs(value)
            if not inside or kinked + curved > LINEAR:
                most = coefficients[k] * np.exp(-nearest)  # where the region is nearest to the centre
                least = coefficients[k] * np.exp(-distance - reach) if inside else 0.0
                if not inside or rest > abs(most - least) / 2:  # a far region: all between the two
                    sums[r, 0] += (most + least) / 2
                    sums[r, inputs + 1] += abs(most - least) / 2
                    continue
            sums[r, 0] += value
            for j in range(inputs):
                if middles[r, j] > centres[k, j]:
                    sums[r, 1 + j] -= rates[j] * value
                elif middles[r, j] < centres[k, j]:
                    sums[r, 1 + j] += rates[j] * value
            sums[r, inputs + 1] += rest
