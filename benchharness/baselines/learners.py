"""Functions that train the baselines: the most frequent answer, and simple models over words."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from scipy.sparse import hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from benchharness.discovery import member, places
from benchharness.tasks.answers import answer_type
from benchharness.tasks.answers.spans import split_sentences
from benchharness.tasks.examples import (
    ChoiceExample,
    ChoicePrediction,
    PairExample,
    PairPrediction,
    Prediction,
    SpanExample,
    SpanPrediction,
    TagExample,
    TagPrediction,
)
from benchharness.tasks.read import subset
from benchharness.tasks.task import PairTask, Task

# A learner is a function that fits a baseline to a train split. It returns a predictor, which is a
# function that predicts rows of the same task.

Predictor = Callable[[Sequence[Any]], tuple[Prediction, ...]]
"""Function that returns one prediction per example, in the order of the examples."""

Learner = Callable[[Task, Sequence[Any], Mapping[str, Any]], Predictor]
"""Function `(task, examples, values)` that trains a baseline and returns its predictor.

`examples` are the training examples, and `values` are the values of the baseline's hyperparameters,
keyed by name.
"""


# Texts are represented as sparse vectors of TF-IDF weights.

TOKEN = r"\w+|[^\w\s]"  # noqa: S105  (a pattern, not a password)
"""Pattern of tokens: words and single punctuation marks, so that only blank texts have no token."""


def fit_vectors(texts: Sequence[str], values: Mapping[str, Any]) -> Any:
    """Fit a TF-IDF vectorizer of scikit-learn to texts, and return the vectorizer.

    Its vectors have length 1, so the dot product of two vectors is their cosine.

    Args:
        texts: Training texts.
        values: Values of hyperparameters: "ngrams" is the maximum length of n-grams, and
            "max_features" is the maximum number of features.
    """
    return TfidfVectorizer(
        token_pattern=TOKEN,
        ngram_range=(1, values["ngrams"]),
        max_features=values["max_features"],
        sublinear_tf=True,
    ).fit(texts)


# For question answering, the baseline predicts the sentence that is most similar to the question.


def learn_sentences(
    _task: Task, examples: Sequence[SpanExample], values: Mapping[str, Any]
) -> Predictor:
    """Return a predictor that answers with the sentence that is most similar to the question.

    The similarity is the cosine of TF-IDF vectors; if several sentences are equally similar, the
    first is chosen. Only the vocabulary and the inverse document frequencies (IDF) are learned from
    the training examples. The no-answer score is the negative cosine. It never exceeds the
    threshold 0, so every question gets an answer.

    Args:
        _task: Not used.
        examples: Training examples.
        values: Values of the hyperparameters of `fit_vectors`.
    """
    contexts = dict.fromkeys(example.context for example in examples)
    vectors = fit_vectors([*contexts, *(example.question for example in examples)], values)

    def predict(asked: Sequence[SpanExample]) -> tuple[SpanPrediction, ...]:
        # Compute one matrix with a row per sentence of all contexts. `places` contains the range of
        # rows of each context.
        cut = {example.context: split_sentences(example.context) for example in asked}
        rows = vectors.transform([sentence for parts in cut.values() for sentence in parts])
        ends = accumulate((len(parts) for parts in cut.values()), initial=0)
        places = dict(zip(cut, pairwise(ends), strict=True))
        questions = vectors.transform([example.question for example in asked])
        predictions = []
        for number, example in enumerate(asked):
            start, end = places[example.context]
            # Rows have length 1, so products are cosines, with shape [sentences, 1].
            cosines = (rows[start:end] @ questions[number].T).toarray()[:, 0]
            best = int(cosines.argmax())
            predictions.append(
                SpanPrediction(
                    id=example.id,
                    text=cut[example.context][best],
                    no_answer_score=-float(cosines[best]),
                )
            )
        return tuple(predictions)

    return predict


def learn_majority(
    task: Task,
    examples: Sequence[Any],
    values: Mapping[str, Any],  # noqa: ARG001  (as in every learner)
) -> Predictor:
    """Return a predictor of the most frequent answer in the training examples.

    This is the most frequent label, option index or tag, or the mean of the numbers of a
    regression. If an example may have several labels, all labels are predicted that at least half
    of the examples have, or the most frequent label if no label is that frequent. For questions
    about a context, the answer is "no answer" if the task has unanswerable questions, and otherwise
    the first sentence of the context.

    Args:
        task: Task of the training examples.
        examples: Training examples.
        values: Not used.
    """
    predict = answer_type(task).majority(examples)
    return lambda asked: tuple(map(predict, asked))


def _has_labels(task: PairTask, examples: Sequence[PairExample]) -> Any:
    """Return an array `[examples, labels]` with 1 for each label that an example has."""
    found = [example.label if isinstance(example.label, tuple) else () for example in examples]
    return np.array([[float(label in each) for label in task.labels] for each in found])


# For multiple choice, the features of an option are all of its words, and those of its words that
# also occur in the context or the question.


def learn_options(
    _task: Task, examples: Sequence[ChoiceExample], values: Mapping[str, Any]
) -> Predictor:
    """Train a logistic regression that classifies options as right or wrong.

    The returned predictor chooses the option that is most probably right.

    Args:
        _task: Not used.
        examples: Training examples.
        values: Values of the hyperparameters of `fit_vectors`, and "regularization", the inverse
            regularization strength C of scikit-learn.
    """
    texts = [text for e in examples for text in (_question(e), *e.options)]
    vectors = fit_vectors(texts, values)
    model = LogisticRegression(C=values["regularization"], max_iter=1000)
    right = [place in (example.gold or ()) for example, place in _options(examples)]
    model.fit(_rows(vectors, examples), right)

    def predict(asked: Sequence[ChoiceExample]) -> tuple[ChoicePrediction, ...]:
        logits = model.decision_function(_rows(vectors, asked))
        ends = accumulate((len(example.options) for example in asked), initial=0)
        return tuple(
            _option_choice(example, logits[start:end])
            for example, (start, end) in zip(asked, pairwise(ends), strict=True)
        )

    return predict


def _question(example: ChoiceExample) -> str:
    return f"{example.context} {example.question}"


def _options(examples: Sequence[ChoiceExample]) -> list[tuple[ChoiceExample, int]]:
    return [(example, place) for example in examples for place in range(len(example.options))]


def _rows(vectors: Any, examples: Sequence[ChoiceExample]) -> Any:
    """Return a feature matrix with one row per option.

    A row contains the option's vector, and its element-wise product with the question's vector.
    """
    options = vectors.transform([e.options[place] for e, place in _options(examples)])
    questions = vectors.transform([_question(example) for example in examples])
    # Each question is repeated for each of its options.
    repeated = questions[np.repeat(np.arange(len(examples)), [len(e.options) for e in examples])]
    return hstack([options, repeated.multiply(options)], format="csr")


def _option_choice(example: ChoiceExample, logits: Any) -> ChoicePrediction:
    # Compute a softmax over the options. The maximum is subtracted, so that nothing overflows.
    weights = np.exp(logits - logits.max())
    scores = tuple((weights / weights.sum()).tolist())
    return ChoicePrediction(id=example.id, option=int(logits.argmax()), scores=scores)


# For classification and regression of one or two texts, the baselines are linear models over words.


def learn_labels(
    task: Any, examples: Sequence[PairExample], values: Mapping[str, Any]
) -> Predictor:
    """Train a logistic regression for one label per example, and return its predictor.

    A label without training examples has the probability 0.

    Args:
        task: Task of the training examples.
        examples: Training examples.
        values: Values of the hyperparameters of `fit_vectors`, and "regularization", the inverse
            regularization strength C of scikit-learn.
    """
    # All tasks converge within 1,000 steps; scikit-learn's default of 100 is too low for QNLI.
    model = LogisticRegression(C=values["regularization"], max_iter=1000)
    rows_of = _learned_rows(examples, values)
    model.fit(rows_of(examples), [example.label for example in examples])
    # The columns of the model are the sorted labels of the training examples. Find their positions
    # among all labels of the task.
    places = [task.labels.index(label) for label in model.classes_]

    def predict(asked: Sequence[PairExample]) -> tuple[PairPrediction, ...]:
        scores = np.zeros((len(asked), len(task.labels)))
        scores[:, places] = model.predict_proba(rows_of(asked))
        winners = scores.argmax(axis=1)
        return tuple(
            PairPrediction(id=example.id, label=task.labels[winner], scores=tuple(row))
            for example, winner, row in zip(asked, winners, scores.tolist(), strict=True)
        )

    return predict


def learn_label_sets(
    task: Any, examples: Sequence[PairExample], values: Mapping[str, Any]
) -> Predictor:
    """Train one logistic regression per label, and return a predictor of sets of labels.

    A label that all training examples have is predicted for every example, and a label that none of
    them has is never predicted.

    Args:
        task: Task of the training examples.
        examples: Training examples.
        values: Values of the hyperparameters of `fit_vectors`, and "regularization", the inverse
            regularization strength C of scikit-learn.
    """
    rows_of = _learned_rows(examples, values)
    rows, gold = rows_of(examples), _has_labels(task, examples)
    # Train a model for each column of `gold`, [examples, labels]. scikit-learn rejects a column in
    # which all values are equal; this value is then used instead of a model.
    models = [
        LogisticRegression(C=values["regularization"], max_iter=1000).fit(rows, column)
        if len(set(column)) > 1
        else float(column[0])
        for column in gold.T
    ]

    def predict(asked: Sequence[PairExample]) -> tuple[PairPrediction, ...]:
        given = rows_of(asked)
        columns = [
            np.full(len(asked), model)
            if isinstance(model, float)
            else model.predict_proba(given)[:, 1]
            for model in models
        ]
        return tuple(
            PairPrediction(
                id=example.id,
                label=tuple(n for n, score in zip(task.labels, scores, strict=True) if score > 0.5),
                scores=tuple(scores),
            )
            for example, scores in zip(asked, np.array(columns).T.tolist(), strict=True)
        )

    return predict


def learn_numbers(
    _task: Task, examples: Sequence[PairExample], values: Mapping[str, Any]
) -> Predictor:
    """Train a ridge regression for one number per example, and return its predictor.

    Args:
        _task: Not used.
        examples: Training examples.
        values: Values of the hyperparameters of `fit_vectors`, and "regularization", the
            regularization strength alpha of scikit-learn.
    """
    rows_of = _learned_rows(examples, values)
    model = Ridge(alpha=values["regularization"])
    model.fit(rows_of(examples), [example.label for example in examples])
    return lambda asked: tuple(
        PairPrediction(id=example.id, label=number)
        for example, number in zip(asked, model.predict(rows_of(asked)).tolist(), strict=True)
    )


def _learned_rows(
    examples: Sequence[PairExample], values: Mapping[str, Any]
) -> Callable[[Sequence[PairExample]], Any]:
    """Return a function that computes the feature matrix of examples, with one row per example.

    The TF-IDF weights are fitted to the training examples. The features of one text are its TF-IDF
    vector. The features of two texts are both vectors, their absolute difference and their
    element-wise product, as in the CBoW baseline of GLUE's paper.
    """
    texts = [t for e in examples for t in (e.text_a, e.text_b) if t is not None]
    vectors = fit_vectors(texts, values)

    def rows_of(asked: Sequence[PairExample]) -> Any:
        one = vectors.transform([example.text_a for example in asked])
        if asked[0].text_b is None:
            return one
        other = vectors.transform([example.text_b or "" for example in asked])
        return hstack([one, other, abs(one - other), one.multiply(other)], format="csr")

    return rows_of


# For tagging, the baseline predicts the most frequent tag of each word.


def learn_words(
    _task: Task, examples: Sequence[TagExample], _values: Mapping[str, Any]
) -> Predictor:
    """Return a predictor that tags each word with its most frequent tag in the training examples.

    Words that are not in the training examples get the most frequent tag of all words.

    Args:
        _task: Not used.
        examples: Training examples.
        _values: Not used.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for example in examples:
        for word, tag in zip(example.words, example.tags or (), strict=True):
            counts[word][tag] += 1
    overall = sum(counts.values(), Counter[str]())
    # On ties, the tag that occurs first in train wins, because a Counter keeps this order.
    tags = {word: found.most_common(1)[0][0] for word, found in counts.items()}
    unknown = overall.most_common(1)[0][0]

    def predict(asked: Sequence[TagExample]) -> tuple[TagPrediction, ...]:
        return tuple(
            TagPrediction(id=e.id, tags=tuple(tags.get(word, unknown) for word in e.words))
            for e in asked
        )

    return predict


# The bag-of-words baseline combines these learners: it selects one by the task's type of answers.


def learn_bag_of_words(task: Task, examples: Sequence[Any], values: Mapping[str, Any]) -> Predictor:
    """Train the bag-of-words baseline, and return its predictor.

    The learner is selected by the task's type of answers (`Task.kind`). A fixed subset of about
    "max_examples" training examples is used, or all of them if the baseline has no hyperparameters
    on this task. If all of the used examples of a classification task have the same label, the
    majority baseline is trained instead, because a classifier needs two labels.

    Args:
        task: Task of the training examples.
        examples: Training examples.
        values: Values of the baseline's hyperparameters, keyed by name.
    """
    added = places("learners")
    learn: Learner = (
        member(f"the baseline of {task.kind}", added[task.kind])
        if task.kind in added
        else LEARNERS.get(task.kind, learn_majority)
    )
    if not task.baseline_has_settings:
        return learn(task, examples, values)
    kept: Sequence[Any] = subset(examples, values["max_examples"])
    if task.kind in ("class", "labels") and len({example.label for example in kept}) < 2:
        learn = learn_majority
    return learn(task, kept, values)


LEARNERS: Mapping[str, Learner] = {
    "class": learn_labels,
    "labels": learn_label_sets,
    "number": learn_numbers,
    "span": learn_sentences,
    "choice": learn_options,
    "tag": learn_words,
    "role": learn_words,
}
"""Functions that train the bag-of-words baseline, keyed by `Task.kind`."""
