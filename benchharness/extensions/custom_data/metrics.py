"""Metrics for `--metric`: those of benchharness, of the `evaluate` library, or of a script.

A metric of the library is Python code that someone else wrote. It runs only if the user has named
it (tasks/foreign_code.py), and only as long as its code is the same as when the task was detected.
evaluate takes seconds to import, so it is imported only when it is needed.
"""

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from benchharness.errors import BenchError, DataError
from benchharness.extensions.custom_data.roles import Kind
from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import Example, Prediction
from benchharness.tasks.foreign_code import (
    Code,
    local_place,
    modules_digest,
    modules_in,
    name_code,
    require_named,
)
from benchharness.tasks.metrics import (
    accuracy,
    binary_f1,
    choice_accuracy,
    label_f1,
    macro_f1,
    matthews,
    pearson,
    spearman,
)
from benchharness.tasks.metrics.entities import (
    are_entity_tags,
    entity_f1,
    entity_precision,
    entity_recall,
    tag_accuracy,
    word_accuracy,
)
from benchharness.tasks.metrics.squad import SQUAD_V1, SQUAD_V2
from benchharness.tasks.sources.hub import go_offline_if_unreachable
from benchharness.tasks.task import Metric, Task

EVALUATE = "evaluate:"

AnyMetric = Metric[Any, Any]


class Script(NamedTuple):
    """Facts about a metric of the `evaluate` library, tested when the task was detected.

    Attributes:
        digest: The SHA-256 (hex) of the metric's code.
        best: The score that the metric gives to right answers.
    """

    digest: str
    best: float


def known_metrics(
    kind: Kind, labels: Sequence[str], *, no_answer: bool, unseen: Sequence[str] = ()
) -> dict[str, AnyMetric]:
    """Return benchharness's metrics for a kind of task, keyed by name; the main metric is first.

    Args:
        kind: The kind of task.
        labels: The labels of the task.
        no_answer: True if questions may have no answer in their context.
        unseen: The labels that train lacks. A mean over labels includes such a label only if it
            occurs in the split that is scored.
    """
    found: Mapping[Kind, tuple[AnyMetric, ...]] = {
        "class": (_of_occurring(macro_f1, labels, unseen), accuracy, matthews),
        "labels": (
            label_f1(labels, "micro"),
            _of_occurring(lambda found: label_f1(found, "macro"), labels, unseen),
            accuracy,
        ),
        "number": (pearson, spearman),
        "tags": (entity_f1, entity_precision, entity_recall, tag_accuracy),
        # The order is reversed so that F1 is the first and therefore the main metric.
        "spans": tuple(reversed(SQUAD_V2 if no_answer else SQUAD_V1)),
        "choice": (choice_accuracy,),
    }
    if kind == "tags" and not are_entity_tags(labels):
        return {word_accuracy.name: word_accuracy}  # e.g. parts of speech mark no spans
    return {metric.name: metric for metric in found[kind]}


def _of_occurring(
    metric: Callable[[Sequence[str]], AnyMetric], labels: Sequence[str], unseen: Sequence[str]
) -> AnyMetric:
    """Build a metric that averages over labels, but skips `unseen` ones that no example has."""
    whole = metric(labels)
    if not unseen:
        return whole

    def compute(predictions: Sequence[Any], examples: Sequence[Any]) -> float | None:
        there = {label for example in examples for label in example.traits.labels}
        kept = [label for label in labels if label not in unseen or label in there]
        return metric(kept).compute(predictions, examples)

    return replace(whole, compute=compute)


def metric_of(
    word: str, known: Mapping[str, AnyMetric], labels: Sequence[str], script: Script | None
) -> AnyMetric:
    """Return the metric for a value of `--metric`.

    Args:
        word: The value of `--metric`, such as "f1", "f1:spam" or "evaluate:bleu".
        known: The metrics of benchharness for this kind of task, keyed by name.
        labels: The labels of the task.
        script: Facts about the metric if it is one of the `evaluate` library that has been tested,
            else None.

    Raises:
        BenchError: The metric does not fit the task.
    """
    if word.startswith(EVALUATE):
        return _evaluated(word, labels, script)
    name, _, positive = word.partition(":")
    # "f1:spam" is the F1 of the class "spam". It is only for tasks with one class per text, which
    # are the only ones with the metric "mcc".
    if name == "f1" and positive in labels and "mcc" in known:
        return replace(binary_f1(positive), title=f"F1 of {positive}")
    if word not in known:
        raise BenchError(
            f"--metric {word!r} is not a metric for this kind of task: expected one of "
            f"{', '.join(known)}, or evaluate:NAME for a metric of the evaluate library."
        )
    return known[word]


def metrics_of(
    words: Sequence[str],
    known: Mapping[str, AnyMetric],
    labels: Sequence[str],
    scripts: Mapping[str, Script],
) -> tuple[AnyMetric, ...]:
    """Return the metrics for several values of `--metric`, each with a unique name.

    Args:
        words: The values of `--metric`.
        known: The metrics of benchharness for this kind of task, keyed by name.
        labels: The labels of the task.
        scripts: Facts about the metrics of the `evaluate` library, keyed by the value of
            `--metric`.

    Raises:
        BenchError: A metric is given twice, or does not fit the task.
    """
    names = metric_names(words)
    found = (metric_of(word, known, labels, scripts.get(word)) for word in words)
    return tuple(replace(each, name=name) for each, name in zip(found, names, strict=True))


def metric_names(words: Sequence[str]) -> list[str]:
    """Return a unique name for the metric of each value of `--metric`.

    The names are also the names of the scores. If an earlier metric has the same name, the values
    of the metric's options are appended to the name, as in f1_weighted, or the class, as in
    f1_spam. A metric of the evaluate library without options gets the prefix "evaluate_" instead.

    Raises BenchError if a metric is given twice, or if a value has the wrong form.
    """
    names: list[str] = []
    for word in words:
        name, _, positive = word.partition(":")
        longer = f"{name}_{positive}"
        if word.startswith(EVALUATE):
            source, options = _parse(word)
            given = [str(value) for value in options.values()]
            name = _name_of(source)
            longer = "_".join([name, *given] if given else ["evaluate", name])
        name = longer if name in names else name
        if name in names or words.count(word) > 1:
            raise BenchError(f"--metric has {word} twice: remove one of them.")
        names.append(name)
    return names


# Metrics of the evaluate library.


def _parse(word: str) -> tuple[str, dict[str, Any]]:
    """Parse a value of `--metric` into the metric's hub name or script path, and its options.

    The option `config_name` is for loading the metric, and `score` names the value to use if the
    metric returns several. Raises BenchError if `word` is malformed.
    """
    source, *parts = word.removeprefix(EVALUATE).split(",")
    pairs = [part.partition("=") for part in parts]
    if not source or any(not (name and equals and value) for name, equals, value in pairs):
        raise BenchError(
            f"--metric {word!r} is not evaluate:NAME or evaluate:NAME,option=value, such as "
            "evaluate:f1,average=macro."
        )
    return source, {name: _typed(value) for name, _, value in pairs}


def _name_of(source: str) -> str:
    """Return the name of a metric, also from a redacted path such as `my_metric.py#3fa2c1`."""
    return Path(re.sub("#[0-9a-f]{6}$", "", source)).stem.lower()


def _evaluated(word: str, labels: Sequence[str], script: Script | None) -> AnyMetric:
    """Build a metric of the evaluate library; if its best score is 100, divide scores by 100."""
    source, given = _parse(word)
    name, best = _name_of(source), script.best if script else 1.0
    place = {label: number for number, label in enumerate(labels)}
    options = {n: value for n, value in given.items() if n not in ("config_name", "score")}

    def compute(predictions: Sequence[Prediction], examples: Sequence[Example]) -> float:
        require_named([_code(word, script)])
        module = load_script(source, given.get("config_name"), script)
        try:
            form = _form(module)
            guesses = [_written(p, form, place) for p in predictions]
            golds = [_written(e, form, place) for e in examples]
            found = module.compute(predictions=guesses, references=golds, **options)
        except BenchError:
            raise
        except Exception as error:
            raise BenchError(
                f"--metric evaluate:{source} does not fit these predictions: "
                f"{_reason(error) or type(error).__name__}"
            ) from error
        return _number(source, given.get("score"), found) / (best if best == 100.0 else 1.0)

    # If right answers score 1 or 100, this is the highest score. The lowest score is unknown.
    is_bounded = script is not None and best in (1.0, 100.0)
    bounds = (-math.inf, 1.0 if is_bounded else math.inf)
    return Metric(name=name, compute=compute, bounds=bounds, is_slow=True)


def _number(source: str, wanted: Any, found: Mapping[str, Any]) -> float:
    """Choose the score among the values a metric returned; raise BenchError if it is unclear."""
    numbers = {name: each for name, each in found.items() if isinstance(each, int | float)}
    if (name := wanted or _name_of(source)) in numbers:
        return float(numbers[name])
    if len(numbers) == 1 and wanted is None:
        return float(next(iter(numbers.values())))
    raise BenchError(
        f"--metric evaluate:{source} returns {', '.join(found) or 'nothing'}: choose "
        f"one number as the score, such as evaluate:{source},score={next(iter(numbers), 'NAME')}."
    )


def _reason(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "")[:200]


def _typed(value: str) -> str | int | float | bool:
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def codes_of(words: Sequence[str], scripts: Mapping[str, Script]) -> list[Code]:
    """Return the third-party code that the metrics of the library `evaluate` run.

    Args:
        words: The values of `--metric`; those of benchharness's own metrics are ignored.
        scripts: Facts about the metrics of the library, keyed by the value of `--metric`.
    """
    return [_code(word, scripts.get(word)) for word in words if word.startswith(EVALUATE)]


def _code(word: str, script: Script | None) -> Code:
    return Code(_parse(word)[0], script.digest if script else "")


@cache
def load_script(source: str, config: str | None, script: Script | None) -> Any:
    """Load a metric of the library `evaluate`; loading runs the metric's code.

    Unless the user named the metric in this command, the caller must first call `require_named`,
    which raises an error for code that is not allowed.

    Args:
        source: The name of the metric on the hub, or the path of a script.
        config: The config of the metric, or None.
        script: Facts about the code as it was tested; None to load any code.

    Returns:
        The object with which `evaluate` computes the metric.

    Raises:
        DataError: The metric cannot be loaded, or its code differs from the tested code.
    """
    import evaluate  # noqa: PLC0415  (four seconds)
    from evaluate.loading import evaluation_module_factory, import_main_class  # noqa: PLC0415

    place = local_place(source)
    if place is None and go_offline_if_unreachable():
        evaluate.config.HF_EVALUATE_OFFLINE = True
    found = str(place or source)
    try:
        # These are the two steps of `evaluate.load`. Calling it here would fetch the code again
        # after the check.
        copy = evaluation_module_factory(found)
        if script is not None and _digest_unloaded(copy.module_path) != script.digest:
            raise _changed(source)
        module = import_main_class(copy.module_path)(
            config_name=config, hash=copy.hash, keep_in_memory=True
        )
        module.download_and_prepare()
    except DataError:
        raise
    except Exception as error:
        code = place.read_text(errors="replace") if place and place.is_file() else ""
        if several := re.search(r"^import +\w[\w. ]*,.*", code, re.MULTILINE):
            raise DataError(
                f"{source} has the line {several[0]!r}, which the evaluate library does not "
                "understand: write one import per line."
            ) from error
        raise DataError(
            f"--metric evaluate:{source} could not be loaded ({type(error).__name__}: "
            f"{_reason(error).rstrip('.')}): use the name of a metric on the hub, or the path of "
            "a script."
        ) from error
    return module


def _digest_unloaded(module_path: str) -> str:
    """Return the digest of a metric's code without running it."""
    spec = find_spec(module_path)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(module_path)
    return _digest(Path(spec.origin))


def _changed(source: str) -> DataError:
    return DataError(
        f"the metric evaluate:{source} has changed since this run was planned: start the run again."
    )


def script_digest(module: Any) -> str:
    """Return the SHA-256 (hex) of the code of a metric, including the local modules it imports.

    Args:
        module: The metric, as `load_script` returned it.
    """
    return _digest(Path(inspect.getfile(type(module))))


def _digest(main: Path) -> str:
    """Return the SHA-256 (hex) of a script together with the local modules that it imports.

    evaluate copies the script into a folder, together with these modules under the imported names.
    """
    return modules_digest(modules_in(main.parent))


def check_script(
    word: str, task: Task, labels: Sequence[str], examples: Sequence[Example]
) -> Script:
    """Test a metric of the `evaluate` library on right and wrong answers; return facts about it.

    Args:
        word: The value of `--metric`.
        task: Task that uses the metric.
        labels: The labels of the task.
        examples: The examples whose answers are scored.

    Raises:
        BenchError: The metric does not fit the task, labels are hidden, or wrong answers score as
            high as right ones.
    """
    source, options = _parse(word)
    digest = script_digest(load_script(source, options.get("config_name"), None))
    name_code([Code(source, digest)])
    metric = _evaluated(word, labels, Script(digest, 1.0))
    kind = answer_type(task)
    golds = [kind.golds(example) for example in examples]
    if not all(golds):
        raise BenchError(f"--metric {word!r} cannot be tested: labels of {task.name} are hidden.")
    right = [gold[0] for gold in golds]
    best = metric.compute(right, examples) or 0.0
    # For most kinds of answers an example's wrong answer is the right one of the next example.
    moved = [*map(kind.wrong, examples, [*right[1:], right[0]])]
    # The condition is `not best > ...` instead of `best <= ...`, so that it also refuses a score of
    # NaN, with which every comparison is false.
    if not best > (metric.compute(moved, examples) or 0.0):
        raise BenchError(
            f"--metric {word!r} does not score right answers higher than wrong ones (right answers "
            f"score {best:g}): use a metric that is higher for better answers, because a "
            "leaderboard ranks by it."
        )
    return Script(digest, best)


def _form(module: Any) -> str:
    """Return the form of predictions that a metric's features require: "class", "texts", ..."""
    features = module.features
    feature = (features[0] if isinstance(features, list) else features)["predictions"]
    # For some metrics, such as squad, a prediction is an object with "id" and "prediction_text".
    if hasattr(feature, "keys"):
        return "squad"
    inner = getattr(feature, "feature", None)
    kind = str(getattr(inner or feature, "dtype", ""))
    word = "text" if "string" in kind else "class" if "int" in kind else "number"
    plural = "classes" if word == "class" else f"{word}s"
    return plural if inner is not None else word


def _written(found: Any, form: str, place: Mapping[str, int]) -> Any:
    """Convert a prediction or an example to a metric's form; raise BenchError if impossible."""
    writer = _WRITERS.get((type(found).__name__.replace("Example", "Prediction"), form))
    if writer is None:
        raise BenchError(
            f"the metric needs a prediction of the form {form} per example, which this kind of "
            "task does not have."
        )
    return writer(found, place)


def _label_number(found: Any, place: Mapping[str, int]) -> Any:
    return place.get(found.label, found.label)


def _is_gold(found: object) -> bool:
    return isinstance(found, Example)


def _option(found: Any, _place: Mapping[str, int]) -> int:
    return int(found.gold[0] if _is_gold(found) else found.option)


def _squad(found: Any, _place: Mapping[str, int]) -> dict[str, Any]:
    if not _is_gold(found):
        return {"id": found.id, "prediction_text": "" if found.abstains else found.text}
    answers = found.answers or ()
    places = {"text": [t for t, _ in answers], "answer_start": [start for _, start in answers]}
    return {"id": found.id, "answers": places}


_WRITERS: Mapping[tuple[str, str], Callable[[Any, Mapping[str, int]], Any]] = {
    ("PairPrediction", "class"): _label_number,
    ("PairPrediction", "number"): _label_number,
    ("PairPrediction", "text"): lambda found, _: str(found.label),
    ("PairPrediction", "classes"): lambda found, place: [
        int(name in found.label) for name in place
    ],
    ("PairPrediction", "numbers"): lambda found, place: [float(n in found.label) for n in place],
    ("ChoicePrediction", "class"): _option,
    ("ChoicePrediction", "number"): _option,
    ("TagPrediction", "texts"): lambda found, _: list(found.tags),
    ("SpanPrediction", "squad"): _squad,
    ("SpanPrediction", "text"): lambda found, _: (
        next(iter(found.answer_texts), "") if _is_gold(found) else found.text
    ),
}
"""Functions that convert a prediction or example, keyed by its type and the metric's form."""
