"""The estimators, in scikit-learn's habits and beyond them."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from atlas_splines import AtlasClassifier, AtlasRegressor

# scikit-learn expects the same of its own estimators that hold rows out or shuffle batches, such as
# HistGradientBoostingRegressor and SGDClassifier
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "a weight of two is not the same as a row twice: rows are held out, and batches are drawn, by row",
}


@parametrize_with_checks([AtlasRegressor(), AtlasClassifier()], expected_failed_checks=lambda _: EXPECTED)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)
