"""
Atlas, chart, fence, evidence, footprint
========================================

Five words, with pictures. The code behind the pictures is in the script, which can be downloaded below.
"""

# sphinx_gallery_start_ignore
import matplotlib.pyplot as plt
import numpy as np

from atlas_splines import Atlas, AtlasRegressor, footprint, train, update
from atlas_splines.model.splines import basis
from atlas_splines.plots import draw_box, draw_map

random = np.random.default_rng(0)
GRID = np.linspace(0, 1, 161)
SQUARE = np.stack(np.meshgrid(GRID, GRID, indexing="ij"), axis=-1).reshape(-1, 2)


def world(X):
    return np.sin(6 * X[:, 0]) * np.cos(4 * X[:, 1])


def as_image(values):
    return np.asarray(values).reshape(GRID.size, GRID.size)


# sphinx_gallery_end_ignore
# %%
# The model: splines inside sums and exponentials
# -----------------------------------------------
# A *spline* of one input is a sum of hills, the basis functions, each times a coefficient. Only four hills
# are up at any point, so a lesson about this point moves four coefficients, and points that are farther than
# four cells away do not hear of it. A *density* more doubles the number of hills.

# sphinx_gallery_start_ignore
figure, panels = plt.subplots(1, 2, figsize=(9, 2.6), layout="constrained", sharey=True)
for density, axes in enumerate(panels, start=1):
    hills = basis(GRID, density)
    axes.plot(GRID, hills, color="0.75", lw=1)
    axes.plot(GRID, np.where(hills[80] > 0, hills, np.nan), lw=2)
    axes.axvline(0.5, color="0.3", lw=1, ls=":")
    axes.set(
        title=f"density {density}: {hills.shape[1]} functions, four active at the dotted line", xlabel="x"
    )
    axes.title.set_size(10)
plt.show()
# sphinx_gallery_end_ignore
# %%
# Sums of splines of single inputs cannot say "warm *and* at noon". Products can, and the exponential of a sum
# is a product. So the model, an ``Atlas``, is a sum of splines and of exponentials of such sums
# (:doc:`/math`). It can come as close to any continuous function as you like.
#
# Why it forgets all the same: the cross
# --------------------------------------
# Each hill belongs to *one* input. Learn new values in a box, and every point that shares a coordinate with
# it hears of it: a cross. With eight inputs nearly every point shares one.
#
# Chart and fence
# ---------------
# An atlas, the book, is a set of charts, each with its own border. So is this one. A *chart* is a small model
# of its own, laid over the old one. Its *fence* is a window, 1 where the new data is, falling to 0 at the
# border of a box, and exactly 0 outside: there the chart has no say, and the old prediction stays the same to
# the bit. Taking the chart away undoes the lesson.

# sphinx_gallery_start_ignore
X = random.random((4000, 2))
model = Atlas(inputs=2)
train(model, X, world(X), epochs=20, random_state=0)
X_new = [0.3, 0.45] + 0.25 * random.random((1500, 2))
y_new = world(X_new) + 1.5
plain, charted = model.copy(), model.copy()
train(plain, X_new, y_new, epochs=20, random_state=0)
done = update(charted, X_new, y_new, random_state=0)
changes = {
    "plain training: a cross": plain(SQUARE) - model(SQUARE),
    "a chart: its box": charted(SQUARE) - model(SQUARE),
}
figure, panels = plt.subplots(1, 3, figsize=(10, 3.3), layout="constrained")
for axes, (title, change) in zip(panels, changes.items(), strict=False):
    image = as_image(np.abs(change))
    draw_map(axes, image, title=title, low=0, high=1.6, colours="Greys")
    draw_box(axes, ((0.3, 0.55), (0.45, 0.7)))
line = np.stack([GRID, np.full(GRID.size, 0.55)], axis=1)
panels[2].plot(GRID, model(line), color="0.6", lw=3, label="before")
panels[2].plot(GRID, charted(line), color="tab:orange", lw=1.5, label="with the chart")
panels[2].axvspan(
    *done.footprint.intervals(0)[0], color="tab:orange", alpha=0.15, lw=0, label="inside the fence"
)
panels[2].set(title="along $x_2$ = 0.55", xlabel="$x_1$", ylim=(-1.4, 3))
panels[2].legend(frameon=False, fontsize=8, loc="upper right")
plt.show()
# sphinx_gallery_end_ignore
# %%
# The two maps show by how much each point changed, on one scale; the new data lies in the box.
#
# Footprint
# ---------
# The *footprint* of an update is the set of points whose prediction it can change. It follows from the fence
# alone, so it is known before anything is learned, and it can be asked: which rows, which values of a column,
# which share of the domain. A plain step has one too: the cross.

points = [[0.4, 0.5], [0.9, 0.5]]  # inside the box, and beside it
chart = footprint(model, X_new)
print("chart:", chart.contains(points), f"{chart.volume:.3f} of the domain")
plain = footprint(model, X_new, retention="none")
print("plain:", plain.contains(points), f"{plain.volume:.3f} of the domain")

# %%
# Evidence
# --------
# Most of what arrives does not contradict anything: it is more of the same, and should count together with
# all that came before. With the exponents fixed, the model is linear in its weights, and all that data says
# about weights is in a few sums: of products of features with each other, and with the target. These sums are
# the *evidence*. They are integers inside, so they add up exactly: in any order, in any pieces, on any number
# of machines; and what was added can be subtracted. No row is kept.

# sphinx_gallery_start_ignore
X = random.random((420, 1))
y = np.sin(7 * X[:, 0]) + random.normal(0, 0.25, 420)
model = AtlasRegressor(retention="pool", members=1, terms=0, domain=[(0, 1)], random_state=0).fit(
    X[:20], y[:20]
)
figure, panels = plt.subplots(1, 3, figsize=(10, 2.8), layout="constrained", sharey=True)
for axes, rows in zip(panels, (20, 80, 420), strict=True):
    if rows > 20:
        start = 20 if rows == 80 else 80
        model.partial_fit(X[start:rows], y[start:rows])
    axes.plot(X[:rows], y[:rows], ".", color="0.75", ms=4)
    axes.plot(GRID, model.predict(GRID[:, None]), color="tab:blue", lw=2)
    axes.plot(GRID, np.sin(7 * GRID), color="k", lw=1, ls=":")
    axes.set(title=f"evidence of {rows} rows", xlabel="x")
panels[0].set(ylabel="target; the truth is dotted")
plt.show()
# sphinx_gallery_end_ignore
# %%
# Who decides
# -----------
# An update with ``retention="auto"`` asks the evidence: does noise explain the new rows? Then they are
# pooled. Do they contradict what was known, in one place? Then they get a chart. Does everything drift? Then
# memories that fade, evidence that counts half after a while, take over from the one that never forgets. The
# log says which it was. With ``retention="chart"`` or ``"pool"`` you decide.
#
# More words are in the :doc:`glossary </reference/glossary>`; the same with numbered equations is
# :doc:`/math`.
