import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchharness.errors import BenchError, StoreError
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.store.store import Store, open_store
from tests.helpers.results import (
    make_cost,
    make_evaluation,
    make_failure,
    make_job,
    make_result,
    make_suite,
)

HOSTILE = (
    "'; DROP TABLE runs; --",
    'x" OR "1"="1',
    "% _ \\ ? :name %s",
    "<script>alert(1)</script>",
    "nul\0inside",
    "surrogate \udc80",
    "\u202eright to left \N{PILE OF POO}",
    "x" * 10_000,
    "",
)


def test_stored_result_is_read_back_equal(store: Store) -> None:
    result = make_result(make_job(task="glue/mnli", limit=100, start_from="ab" * 32))
    assert store.add_result(result) == 1
    assert store.result(result.job.key) == result


def test_stored_result_keeps_the_order_of_splits_and_scores(store: Store) -> None:
    job = make_job(task="glue/mnli")
    scores = {"zeta": 0.5, "alpha": 0.25}
    evaluations = tuple(
        make_evaluation(job, "glue/mnli", split, scores=scores) for split in ("dev_mm", "dev")
    )
    store.add_result(make_result(job, evaluations=evaluations))
    found = store.result(job.key)
    assert isinstance(found, Result)
    assert found.job.predicted_splits == job.predicted_splits
    assert list(found.job.settings) == list(job.settings)
    assert [e.split for e in found.evaluations] == ["dev_mm", "dev"]
    assert list(found.evaluations[0].scores) == ["zeta", "alpha"]
    assert list(store.runs()[0].scores["glue/mnli"]) == ["zeta", "alpha"]


def test_stored_failure_is_read_back_equal(store: Store) -> None:
    failure = make_failure(kind="killed", details="line one\n\tline two é")
    assert store.add_failure(failure) == 1
    assert store.result(failure.job.key) == failure


def test_stored_runs_persist_after_closing(tmp_path: Path) -> None:
    result = make_result()
    with open_store(tmp_path / "board.sqlite") as first:
        first.add_result(result)
    with open_store(tmp_path / "board.sqlite", create=False) as second:
        assert second.result(result.job.key) == result


def test_run_list_has_the_fields_of_each_run(store: Store) -> None:
    job = make_job(task="glue/mrpc", seed=3, limit=50)
    flagged = replace(make_evaluation(job, job.task, "dev"), flags=("constant predictions",))
    result = make_result(job, evaluations=(flagged,))
    store.add_result(result)
    (row,) = store.runs()
    assert (row.key, row.model, row.task, row.suite) == (job.key, "minilm", "glue/mrpc", "glue")
    assert (row.status, row.error, row.seed, row.limit) == ("finished", "", 3, 50)
    assert (row.seconds, row.parameters) == (result.cost.seconds, result.cost.parameters)
    assert row.scores == {"glue/mrpc": flagged.scores}
    assert row.flags == {"glue/mrpc": ("constant predictions",)}
    assert row.fingerprints == job.fingerprints


def test_run_list_has_the_size_of_the_largest_split(store: Store) -> None:
    counts = {"glue/rte:train": {"rows": 2490}, "glue/rte:dev": {"rows": 277}}
    store.add_result(make_result(provenance={"data": counts}))
    store.add_failure(make_failure(make_job(seed=5)))
    assert [row.largest_split for row in store.runs()] == [2490, 0]


def test_run_list_has_the_scores_of_every_predicted_task(store: Store) -> None:
    job = make_job(task="glue/mnli")
    prints = {**job.fingerprints, "glue/ax:test": "ab" * 32}
    job = replace(job, fingerprints=prints)
    store.add_result(make_result(job))
    assert set(store.runs()[0].scores) == {"glue/mnli", "glue/ax"}
    assert set(store.runs()[0].scores["glue/mnli"]) == {"accuracy", "accuracy_mm"}


def test_split_with_hidden_labels_is_stored_without_scores(store: Store) -> None:
    job = make_job()
    result = make_result(job, evaluations=(make_evaluation(job, job.task, "dev", scores={}),))
    store.add_result(result)
    assert store.runs()[0].scores == {}
    assert store.result(job.key) == result


def test_run_list_shows_the_reason_for_a_failure(store: Store) -> None:
    store.add_failure(make_failure(kind="timeout", error="too slow."))
    (row,) = store.runs()
    assert (row.status, row.error, row.scores) == ("timeout", "too slow.", {})


def test_newer_failure_never_hides_a_result(store: Store) -> None:
    job = make_job()
    assert store.add_failure(make_failure(job, error="first.")) == 1
    assert store.runs()[0].status == "diverged"
    assert store.add_result(make_result(job)) == 2
    assert store.add_failure(make_failure(job, error="third.")) == 3
    assert [row.status for row in store.runs()] == ["finished"]
    assert isinstance(store.result(job.key), Result)
    assert [row.status for row in store.attempts(job.key)] == ["diverged", "finished", "diverged"]


def test_run_list_has_the_newest_result_or_the_newest_failure_of_each_job(store: Store) -> None:
    done, failed = make_job(seed=1), make_job(seed=2)
    for seconds in (1.0, 2.0):
        store.add_result(make_result(done, cost=make_cost(seconds=seconds)))
    for error in ("old.", "new."):
        store.add_failure(make_failure(failed, error=error))
    assert [(row.seconds, row.error) for row in store.runs()] == [(2.0, ""), (0.0, "new.")]
    found = store.result(failed.key)
    assert isinstance(found, Failure)
    assert found.error == "new."


def test_run_list_can_be_filtered_by_model_suite_task_and_key(store: Store) -> None:
    jobs = (
        make_job(model="a", task="glue/rte"),
        make_job(model="a", task="superglue/boolq"),
        make_job(model="b", task="glue/rte"),
    )
    for job in jobs:
        store.add_failure(make_failure(job))
    assert [row.key for row in store.runs(model="a")] == [jobs[0].key, jobs[1].key]
    assert [row.key for row in store.runs(suite="superglue")] == [jobs[1].key]
    assert [row.key for row in store.runs(task="glue/rte", model="b")] == [jobs[2].key]
    assert [row.key for row in store.runs(key=jobs[2].key[:10].upper())] == [jobs[2].key]
    assert store.runs(model="c") == store.runs(key="zz") == store.runs(key="")[3:] == []


def test_finished_keys_accepts_more_keys_than_fit_one_sql_statement(store: Store) -> None:
    results = make_suite(seeds=1)
    for result in results:
        store.add_result(result)
    failure = make_failure(make_job(model="other"))
    store.add_failure(failure)
    done = {result.job.key for result in results}
    unknown = {format(number, "064x") for number in range(3000)}
    assert store.finished_keys([*unknown, *done, failure.job.key, *done]) == done
    assert store.finished_keys([]) == set()


def test_recipes_with_equal_names_and_different_values_have_different_digests(store: Store) -> None:
    slow, fast = {"learning_rate": 1e-5}, {"learning_rate": 3e-5}
    for values, seed in ((slow, 1), (fast, 1), (slow, 2)):
        store.add_result(make_result(make_job(settings=values, seed=seed)))
    first, second, third = store.runs()
    assert {first.recipe, second.recipe} == {"bert"}
    assert first.recipe_digest == third.recipe_digest != second.recipe_digest
    assert len(first.recipe_digest) == 12


@pytest.mark.parametrize("prefix", ["", "f" * 64, "xyz", "' OR 1=1 --", "%", "\udc80", "\0"])
def test_unknown_run_key_is_an_error(store: Store, prefix: str) -> None:
    store.add_result(make_result())
    for look_up in (store.result, store.attempts):
        with pytest.raises(BenchError, match="no run has a key that begins with") as raised:
            look_up(prefix)
        assert raised.value.exit_code == 2


def test_ambiguous_run_key_is_an_error_that_lists_the_candidates(store: Store) -> None:
    jobs = [make_job(seed=seed) for seed in range(40)]
    for job in jobs:
        store.add_failure(make_failure(job))
    starts = [job.key[0] for job in jobs]
    common = next(start for start in starts if starts.count(start) > 1)
    with pytest.raises(BenchError, match="matches more than one run") as raised:
        store.result(common)
    assert sum(job.key[:7] in str(raised.value) for job in jobs) >= 2


def test_numpy_numbers_are_stored_as_plain_numbers(store: Store, tmp_path: Path) -> None:
    job = make_job()
    scores = {"f1": np.float64(0.1), "count": np.int64(3), "f32": np.float32(0.5)}
    evaluation = make_evaluation(job, job.task, "dev", scores=scores)  # type: ignore[arg-type]
    cost = make_cost(parameters=np.int64(22_000_000), seconds=np.float32(1.5))
    store.add_result(make_result(job, evaluations=(evaluation,), cost=cost))
    found = store.result(job.key)
    assert isinstance(found, Result)
    assert found.evaluations[0].scores == {"f1": 0.1, "count": 3.0, "f32": 0.5}
    assert _column_types(tmp_path / "board.sqlite", "scores", "value") == {"real"}
    assert _column_types(tmp_path / "board.sqlite", "runs", "parameters") == {"integer"}
    assert _column_types(tmp_path / "board.sqlite", "runs", "seconds") == {"real"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float64("nan"), object()])
def test_non_finite_score_is_an_error_that_names_it(store: Store, value: float) -> None:
    job = make_job()
    evaluation = make_evaluation(job, job.task, "dev", scores={"f1": value})
    with pytest.raises(StoreError, match=r"evaluations\[0\].scores.f1 is (nan|inf|a object)"):
        store.add_result(make_result(job, evaluations=(evaluation,)))
    assert store.runs() == []


def test_result_that_violates_a_constraint_is_not_stored(store: Store) -> None:
    job = make_job()
    twice = (make_evaluation(job, job.task, "dev"),) * 2
    with pytest.raises(Exception, match="UNIQUE constraint failed"):
        store.add_result(make_result(job, evaluations=twice))
    assert store.runs() == []


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_stored_unchanged(store: Store, name: str) -> None:
    job = make_job(model=name, data=name, recipe=name, checkpoint=name, weights=name)
    result = make_result(job, provenance={name: [name]})
    store.add_result(result)
    innocent = make_job(model="innocent")
    store.add_result(make_result(innocent))
    assert store.result(job.key) == result
    assert [row.key for row in store.runs(model=name)] == [job.key]
    assert len(store.runs()) == 2
    store.annotate([innocent.key], "hidden")  # an annotation of another model has no effect
    assert [row.key for row in store.runs(model=name)] == [job.key]


def test_run_list_escapes_unprintable_characters_in_names(store: Store) -> None:
    store.add_result(make_result(make_job(model="a\0b\udc80")))
    assert store.runs()[0].model == r"a\x00b\udc80"


def test_failure_with_a_binary_log_is_stored(store: Store) -> None:
    failure = make_failure(error="killed \udcff.", details="log \0 \udc80 end")
    store.add_failure(failure)
    written = replace(failure, error=r"killed \udcff.", details=r"log \x00 \udc80 end")
    assert store.result(failure.job.key) == written


@pytest.mark.parametrize("name", ["nul\0", "surrogate\udc80"])
def test_metric_name_that_no_database_accepts_is_an_error(store: Store, name: str) -> None:
    job = make_job()
    evaluation = make_evaluation(job, job.task, "dev", scores={name: 0.5})
    with pytest.raises(StoreError, match="cannot be the name of a task, split or metric"):
        store.add_result(make_result(job, evaluations=(evaluation,)))


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    model=st.text(st.characters(exclude_categories=())),
    value=st.floats(allow_nan=False, allow_infinity=False),
    extra=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    ).filter(lambda data: "inf" not in repr(data)),
    seed=st.integers(-(2**63), 2**63 - 1),
)
def test_random_results_are_read_back_equal(
    store: Store, model: str, value: float, extra: object, seed: int
) -> None:
    job = make_job(model=model, seed=seed)
    evaluation = make_evaluation(job, job.task, "dev", scores={"f1": value})
    result = make_result(job, evaluations=(evaluation,), provenance={"extra": extra})
    store.add_result(result)
    assert store.result(job.key) == result


def test_result_module_does_not_import_sqlalchemy() -> None:
    code = "import sys, leaderboard.result; sys.exit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def _column_types(path: Path, table: str, column: str) -> set[str]:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(path)) as connection:
        return {kind for (kind,) in connection.execute(f"SELECT typeof({column}) FROM {table}")}
