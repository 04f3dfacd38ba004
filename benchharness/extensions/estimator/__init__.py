"""A scikit-learn classifier that fine-tunes an encoder: `bh.Classifier("bert").fit(X, y)`."""

from benchharness.extension import Extension

EXTENSION = Extension(
    name="estimator",
    package=__name__,
    needs=("custom_data", "kept_models"),
    calls={"Classifier": "classifier:Classifier"},
)
