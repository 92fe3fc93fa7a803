import pickle

import pytest
from planes import QUICK, plane

from atlas_splines import AtlasRegressor


@pytest.fixture(scope="package")
def fitted():
    """A regressor that knows the plane; `model` is a copy to change."""
    return AtlasRegressor(**QUICK).fit(*plane())


@pytest.fixture
def model(fitted):
    return pickle.loads(pickle.dumps(fitted))
