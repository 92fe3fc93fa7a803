"""
A week of updates
=================

The model of :ref:`the first lesson <sphx_glr_tutorials_plot_1_first_model.py>` is
in use. Every evening the hours of the day come in, and the model learns them.
Nothing is fitted again, and no row is stored. The world does what it likes: on
Wednesday something changes, on Thursday a counter breaks, on Friday there is a
promise to keep, and on Saturday somebody wants to be forgotten.
"""

import matplotlib.pyplot as plt
import numpy as np

from atlas_splines import AtlasRegressor, UpdateRefused
from atlas_splines.plots import draw_box, draw_updates

random = np.random.default_rng(0)


def customers(hour, temperature):
    lunch = np.exp(-(((hour - 13) / 2) ** 2))
    evening = 0.8 * np.exp(-(((hour - 18) / 1.5) ** 2))
    return 20 + 60 * (lunch + evening) * (0.3 + temperature / 35)


def some_hours(rows, hours=(8, 21), temperatures=(0, 35)):
    X = np.column_stack(
        [random.uniform(*hours, rows), random.uniform(*temperatures, rows)]
    )
    return X, customers(*X.T) + random.normal(0, 4, rows)


X, y = some_hours(1500)
model = AtlasRegressor(domain=[(8, 21), (-5, 40)], random_state=0).fit(X, y)
print(model.fit_record_)

# %%
# We told the model its ``domain``: hours from 8 to 21, and temperatures from −5 to
# 40. Announce all that may come; the functions that evidence is collected for end
# there.
#
# Monday and Tuesday: more of the same
# ------------------------------------
# ``partial_fit`` learns. The log says what happened, and why.
for _ in range(2):
    model.partial_fit(*some_hours(140))
for entry in model.update_log_:
    print(entry.id, entry.kind, "-", entry.reason)

# %%
# Noise explains the new rows, so they were *pooled*: added to the evidence of all
# rows before, exactly.
#
# Wednesday: a bus stop
# ---------------------
# A bus now stops in front of the cafés in the morning, and people come before 10.
# The rows of these hours contradict what was known, in one place.
X_morning, y_morning = some_hours(300, hours=(8, 10))
y_morning += 45
midday = np.array([[13.0, 25.0]])
before = model.predict(midday)
model.partial_fit(X_morning, y_morning, message="bus stop")
entry = model.update_log_[-1]
print(entry.id, entry.kind, "-", entry.reason)
print(f"RMSE {entry.error_before:.1f} before, {entry.error_after:.1f} after")
print("at 9 o'clock:", model.predict([[9.0, 20.0]]).round())
print("truth:", (customers(9.0, 20.0) + 45).round())
print("midday is the same to the bit:", model.predict(midday) == before)

# %%
# It got a *chart*: a small model of its own that speaks inside a box around the new
# rows, and nowhere else.
#
# Thursday: a broken counter
# --------------------------
# The counter of the afternoon shows ten times too much. Such rows are refused.
X_afternoon, y_afternoon = some_hours(200, hours=(15, 17))
try:
    model.partial_fit(X_afternoon, 10 * y_afternoon, message="Thursday")
except UpdateRefused as refused:
    print(refused)

# %%
# Somebody insists all the same.
tea = np.array([[16.0, 20.0]])
before = model.predict(tea)
model.partial_fit(
    X_afternoon, 10 * y_afternoon, message="Thursday", accept=True
)
print("at tea time:", model.predict(tea).round(), "before:", before.round())

# %%
# Any of the latest updates can be taken back, not only the newest.
model.revert(model.update_log_[-1].id)
print("as it was, to the bit:", model.predict(tea) == before)

# %%
# Friday: a promise
# -----------------
# From now on there is music on warm evenings. The manager signs only if no other
# forecast changes. So we ask for a chart, and for its *footprint* before anything
# is learned: the places whose prediction can change.
model.set_params(retention="chart")
X_music, y_music = some_hours(300, hours=(19, 21), temperatures=(20, 35))
y_music += 30
footprint = model.footprint(X_music)
print(footprint)

# %%
# Then we learn, and compare a map of all predictions.
grid = np.meshgrid(np.linspace(8, 21, 200), np.linspace(0, 35, 150))
places = np.stack(grid, axis=-1).reshape(-1, 2)
before = model.predict(places)
model.partial_fit(X_music, y_music, message="music on warm evenings")
change = model.predict(places) - before
outside = ~footprint.contains(places)
print(
    "changed outside:",
    np.count_nonzero(change[outside]),
    "of",
    np.sum(outside),
)

figure, axes = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
image = axes.pcolormesh(*grid, change.reshape(grid[0].shape), cmap="Blues")
figure.colorbar(image, label="change in customers")
draw_box(axes, (footprint.intervals(0)[0], footprint.intervals(1)[0]))
axes.set(xlabel="hour", ylabel="temperature")
axes.set_title("what Friday changed; its footprint is outlined")
plt.show()


# %%
# Saturday: please forget us
# --------------------------
# One café leaves, and wants its rows out of the model. Rows that were pooled are
# subtracted again, and the sums are exact: what is left is, to the bit, what the
# sums would be if these rows had never come.
def hours_of_now(rows):
    X, y = some_hours(rows)
    music = (X[:, 0] > 19) & (X[:, 1] > 20)
    return X, y + np.where(X[:, 0] < 10, 45, 0) + np.where(music, 30, 0)


model.set_params(retention="pool")
X_day, y_day = hours_of_now(140)
theirs = np.arange(140) % 10 == 0
with_them = model.partial_fit(X_day, y_day).predict(places)
model.forget(X_day[theirs], y_day[theirs])
difference = np.abs(model.predict(places) - with_them)
print(
    "it changed predictions by up to", difference.max().round(2), "customers"
)

# %%
# Sunday: the log
# ---------------
# What happened, where it could change predictions, and what was taken back.
# :doc:`/versions` sends such changes to others as patches, merges models that
# learned apart, and proves that a file is as it was written.
for entry in model.update_log_:
    fate = "(taken back)" if entry.reverted else ""
    print(entry.id, entry.kind, entry.rows, "rows", entry.message, fate)

figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
draw_updates(axes, model)
plt.show()

# %%
# And how well does it do after such a week? On a thousand new hours of the world as
# it is now:
X_now, y_now = hours_of_now(1000)
error = np.sqrt(np.mean((model.predict(X_now) - y_now) ** 2))
print(f"RMSE {error:.1f}, where the noise alone has 4")
