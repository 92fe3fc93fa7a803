import pytest
from cluster_rows import in_chunks, labels_of, rows_and_targets

from atlas_splines import AtlasClassifier
from atlas_splines.dask import DaskAtlasClassifier

SMALL = {"sample": 800, "features": 50, "members": 1, "random_state": 0}
X, Y = rows_and_targets()
LABELS = labels_of(X, Y)


@pytest.mark.slow
def test_classes_of_all_rows_are_known(client):
    lazy_X, lazy_y = in_chunks(X, LABELS, 1500)
    model = DaskAtlasClassifier(**SMALL).fit(lazy_X, lazy_y)
    assert model.classes_.tolist() == ["high", "low", "rare"]  # the last one is not in the sample
    assert model.score(lazy_X, lazy_y) > 0.9
    local = model.to_local()
    assert type(local) is AtlasClassifier
    assert (model.predict(lazy_X).compute() == local.predict(X)).all()
    assert (model.predict_proba(lazy_X).compute() == local.predict_proba(X)).all()
    other = DaskAtlasClassifier(**SMALL).fit(*in_chunks(X, LABELS, 4000, slice(None, None, -1)))
    assert other.model_.fingerprint() == model.model_.fingerprint()
    model.partial_fit(*in_chunks(X, LABELS, 2500))
    assert model.update_log_[0].rows == 6000
    with pytest.raises(ValueError, match=r"but the first call said \['high', 'low', 'rare'\]"):
        model.partial_fit(lazy_X, lazy_y, classes=["high"])


def test_classes_that_are_announced(client):
    model = DaskAtlasClassifier(**SMALL).partial_fit(
        *in_chunks(X, (Y > 0.5).astype(int), 3000), classes=[0, 1, 2]
    )
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.classes_.dtype.kind == model.predict(in_chunks(X, Y, 3000)[0]).dtype.kind == "i"


def test_numbers_are_no_classes(client):
    with pytest.raises(ValueError, match="y has numbers that are not classes; use DaskAtlasRegressor"):
        DaskAtlasClassifier(**SMALL).fit(*in_chunks(X, Y, 3000))
