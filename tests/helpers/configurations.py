"""Random options of a model, for tests that hold for all of them."""

from hypothesis import strategies as st


def configurations(inputs, outputs, terms, density, **others):
    """Options with at most so many of each; others are strategies for further options."""
    return st.fixed_dictionaries(
        {
            "inputs": st.integers(1, inputs),
            "outputs": st.integers(1, outputs),
            "terms": st.integers(0, terms),
            "density": st.integers(0, density),
            "trainable": st.sampled_from(["finest", "all"]),
            **others,
        }
    )


dtypes = st.sampled_from(["float32", "float64"])
