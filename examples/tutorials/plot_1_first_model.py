"""
A first model in five minutes
=============================

We run ten cafés and want to know how many customers come in an hour, given the
hour and the temperature. Install the library with ``pip install .`` in the folder
of its source; nothing else is needed. The first fit compiles some code, which can
take half a minute; after that it is quick.
"""

# %%
# The data
# --------
# Rows, columns, and a target, as scikit-learn has them. Ours are made up, so that
# we know the truth: people come at lunch and after work, and more of them when it
# is warm.
import numpy as np

random = np.random.default_rng(0)


def customers(hour, temperature):
    lunch = np.exp(-(((hour - 13) / 2) ** 2))
    evening = 0.8 * np.exp(-(((hour - 18) / 1.5) ** 2))
    return 20 + 60 * (lunch + evening) * (0.3 + temperature / 35)


def some_hours(rows):
    X = np.column_stack(
        [random.uniform(8, 21, rows), random.uniform(0, 35, rows)]
    )
    return X, customers(*X.T) + random.normal(0, 4, rows)


X, y = some_hours(1500)
X[:3].round(1), y[:3].round()

# %%
# Fit
# ---
# There is nothing to choose: the model finds its size by itself.
from atlas_splines import AtlasRegressor

model = AtlasRegressor(random_state=0).fit(X, y)
print(model.fit_record_)

# %%
# That is the error on rows that it was not trained on, in customers. The noise that
# we put in has a standard deviation of 4, so there is little left to learn.
#
# Predict
# -------
# Noon in summer, and an evening in winter, beside the truth:
questions = np.array([[12.0, 30.0], [20.0, 3.0]])
print("predicted", model.predict(questions).round(1))
print("truth    ", customers(*questions.T).round(1))

# %%
# How sure is it? About nine of ten new targets lie in an interval of coverage 0.9.
# And has it seen anything like this row? ``support`` goes from 0, never, to 1; it
# was never 60 degrees warm.
low, high = model.predict_interval(questions, coverage=0.9)
print("from", low.round(), "to", high.round())
print("support", model.support([[12.0, 30.0], [12.0, 60.0]]).round(2))

# %%
# See what it has learned
# -----------------------
# The thick line is the mean prediction along a column. The blue band says how much
# that effect differs from row to row: it is wide at lunch, when the temperature
# matters, and narrow between the two rushes. Without such interactions it would
# have no width. The grey band is the interval of 90 %, the dashed line the
# spline of this column alone, without exponentials; bars show where the rows are.
import matplotlib.pyplot as plt

from atlas_splines.plots import draw_shape

figure, panels = plt.subplots(
    1, 2, figsize=(9, 3.4), layout="constrained", sharey=True
)
draw_shape(panels[0], model, 0, X=X).set(xlabel="hour", ylabel="customers")
draw_shape(panels[1], model, 1, X=X).set(xlabel="temperature", ylabel="")
plt.show()

# %%
# The same as numbers: shares of the model's variance by column, and by pairs of
# columns.
print(model.feature_importances_.round(2))
print(model.interaction_strengths().round(2))

# %%
# Keep it
# -------
# One file, without pickle: loading it runs no code that comes with it.
import tempfile
from pathlib import Path

from atlas_splines import load, save

path = Path(tempfile.mkdtemp()) / "cafes.atlas"
save(model, path)
same = load(path)
print(f"{path.stat().st_size / 1e6:.1f} MB")
print("the same predictions:", (same.predict(X) == model.predict(X)).all())

# %%
# The next lesson, :ref:`sphx_glr_tutorials_plot_2_week_of_updates.py`, goes on from
# here. If your rows are in a file, the command does all of this without Python:
# ``atlas fit cafes.csv --target customers -o cafes.atlas`` (:doc:`/command`).
