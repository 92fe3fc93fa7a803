import numpy as np
import pytest
from pictures import axes, line

from atlas_splines import Atlas, AtlasRegressor, History, train
from atlas_splines.plots import draw_history


def test_a_history_shows_every_epoch_and_the_best():
    points = np.random.default_rng(0).random((200, 1))
    history = train(
        Atlas(inputs=1, terms=0), points, points, epochs=8, validation=(points, points), random_state=0
    )
    drawn = draw_history(axes(), history)
    epochs, losses = line(drawn, "training")
    assert (epochs.tolist(), losses.tolist()) == (list(range(1, 9)), history.loss)
    assert line(drawn, "validation")[1].tolist() == history.validation
    [best], [least] = line(drawn, "best epoch")
    assert (best, least) == (history.best_epoch + 1, min(history.validation))


def test_the_scale_is_logarithmic_over_decades_only():
    assert draw_history(axes(), History(loss=[1.0, 0.5])).get_yscale() == "linear"
    assert draw_history(axes(), History(loss=[1.0, 0.05])).get_yscale() == "log"
    assert draw_history(axes(), History(loss=[1.0, 0.0])).get_yscale() == "linear"


def test_members_have_a_line_each(regressor):
    drawn = draw_history(axes(), regressor.validation_loss_)
    assert line(drawn, "member 2, held-out rows")[1].tolist() == regressor.validation_loss_[1]
    assert drawn.get_legend_handles_labels()[1].count("best epoch") == 1


def test_an_estimator_shows_its_members(regressor):
    drawn = draw_history(axes(), regressor)
    for k, losses in enumerate(regressor.validation_loss_):
        assert line(drawn, f"member {k + 1}, held-out rows")[1].tolist() == losses
    with pytest.raises(ValueError, match="the estimator has learned nothing yet; call fit first"):
        draw_history(axes(), AtlasRegressor())


def test_an_empty_history_is_refused():
    with pytest.raises(
        ValueError, match=r"^the history has no losses to draw; it takes an epoch, or rows that"
    ):
        draw_history(axes(), [[], []])
