import pytest
from pictures import PRODUCT, X

from atlas_splines import AtlasRegressor


@pytest.fixture(scope="session")
def regressor():
    return AtlasRegressor(terms=4, density=1, members=2, max_iter=20, features=0, random_state=0).fit(
        X, PRODUCT
    )


@pytest.fixture(scope="session")
def updated(regressor):
    """Three updates: one reverted, one beyond the domain."""
    model = AtlasRegressor(terms=2, density=1, members=1, max_iter=5, features=0, random_state=0).fit(
        X, PRODUCT
    )
    model.partial_fit(X[:100] / 4, PRODUCT[:100])
    model.partial_fit(X[:100] / 2 + [6, 0, 0], PRODUCT[:100])
    model.partial_fit(X[:100] / 3, PRODUCT[:100])
    return model.revert(1)
