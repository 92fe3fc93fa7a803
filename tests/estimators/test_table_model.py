import numpy as np
import pytest

from atlas_splines import AtlasClassifier, AtlasRegressor, TableModel
from atlas_splines.tables.encoding import Column, Encoding, frame

SMALL = {"density": 0, "terms": 0, "members": 1, "max_iter": 1, "features": 0, "random_state": 0}
ENCODING = Encoding((Column("size"), Column("city", ("Aarhus", "Bergen"))), "price")
X = np.column_stack([np.arange(60.0), np.arange(60) % 2])


def test_a_table_model_is_an_estimator_and_the_encoding_of_its_inputs():
    regressor = AtlasRegressor(**SMALL).fit(frame(["size", "city"], list(X.T)), X[:, 0])
    model = TableModel(regressor, ENCODING)
    assert model.estimator is regressor
    assert model.encoding is ENCODING


def test_an_encoding_of_another_model_is_refused():
    named = frame(["size", "city"], list(X.T))
    regressor = AtlasRegressor(**SMALL).fit(named, X[:, 0])
    nameless = AtlasRegressor(**SMALL).fit(X, X[:, 0])
    classifier = AtlasClassifier(**SMALL).fit(named, np.array(["a", "b"])[X[:, 1].astype(int)])
    other_classes = Encoding(ENCODING.columns, "price", ("a", "c"))
    for estimator, encoding in (
        (regressor, Encoding((Column("size"),), "price")),
        (regressor, other_classes),
        (nameless, ENCODING),
        (classifier, ENCODING),
        (classifier, other_classes),
    ):
        with pytest.raises(ValueError, match="its table does not go with its model"):
            TableModel(estimator, encoding)
    assert TableModel(classifier, Encoding(ENCODING.columns, "price", ("a", "b"))).estimator is classifier
