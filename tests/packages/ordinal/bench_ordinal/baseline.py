"""Bag-of-words baseline of levels: a ridge regression on TF-IDF weights, rounded to a level."""

from sklearn.linear_model import Ridge

from bench_ordinal.task import OrdinalPrediction
from benchharness.baselines.learners import fit_vectors


def learn_level_words(task, examples, values):
    """Fit the regression, and return a function that predicts a level for each example."""
    vectorizer = fit_vectors([example.text for example in examples], values)
    wanted = [task.levels.index(example.level) for example in examples]
    model = Ridge().fit(vectorizer.transform([example.text for example in examples]), wanted)

    def predict(asked):
        found = model.predict(vectorizer.transform([example.text for example in asked]))
        last = len(task.levels) - 1
        places = [min(last, max(0, round(float(value)))) for value in found]
        return tuple(
            OrdinalPrediction(id=example.id, level=task.levels[place])
            for example, place in zip(asked, places, strict=True)
        )

    return predict
