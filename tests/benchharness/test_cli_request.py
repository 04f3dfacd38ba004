import pytest

from benchharness.errors import BenchError, ModelError
from benchharness.recipes.resolve import protocol_of
from benchharness.tasks.suites import SUITES, TASKS
from tests.helpers.plans import request_of


def check(**words):
    return request_of(**{"suite": "glue", **words})


def names(request):
    return [task.name for task in request.tasks]


def complaints(**words):
    with pytest.raises(BenchError) as caught:
        check(**words)
    return caught.value


def test_option_suite_selects_all_tasks_of_the_suite():
    request = check()
    assert names(request) == list(SUITES["glue"].tasks)
    assert [model.name for model in request.models] == ["tiny"]
    assert (request.seeds, request.overrides) == ((1, 2, 3, 4, 5), {})


def test_option_suite_with_a_collection_selects_all_tasks_of_its_suites():
    trained = [
        n
        for n, task in TASKS.items()
        if task.is_trained
        and task.suite not in ("beir", "retrieval", "xtreme", "lexglue", "needle")
    ]
    assert names(check(suite=["seeds"])) == trained
    assert names(check(suite=["glue", "seeds"])) == trained


@pytest.mark.parametrize(
    ("suites", "tasks", "expected"),
    [
        (["glue"], ["cola"], ["glue/cola"]),
        (["GLUE"], ["RTE", "glue/cola"], ["glue/rte", "glue/cola"]),
        (["glue"], ["cola", "glue/cola"], ["glue/cola"]),
        ([], ["glue/stsb"], ["glue/stsb"]),
        ([], ["stsb"], ["glue/stsb"]),
        (["seeds"], ["squad/v1.1", "rte"], ["squad/v1.1", "glue/rte", "superglue/rte"]),
    ],
)
def test_tasks_are_selected_by_full_or_short_names(suites, tasks, expected):
    assert names(check(suite=suites, task=tasks)) == expected


def test_seeds_option_counts_from_1_and_seed_option_selects_single_seeds():
    assert check(seeds=3).seeds == (1, 2, 3)
    assert check(seed=[7, 0, 7]).seeds == (7, 0)


def test_option_set_is_split_at_the_first_equals_sign():
    request = check(set=["epochs=3", " learning_rate = 2e-5 "])
    assert request.overrides == {"epochs": "3", "learning_rate": "2e-5"}
    with pytest.raises(BenchError, match="epochs is 'a=b'"):
        check(set=["epochs=a=b"])


def test_option_jobs_sets_the_number_of_parallel_jobs(monkeypatch):
    monkeypatch.setattr("benchharness.engines.slots._count_cores", lambda: 2)
    assert len(check(jobs="3").slots) == 3
    assert len(check().slots) == 2
    assert len(check(task=["cola"], seeds=1).slots) == 1


def test_default_number_of_parallel_jobs_fits_main_memory(monkeypatch):
    monkeypatch.setattr("benchharness.engines.slots._count_cores", lambda: 4)
    for gigabytes, jobs in ((1, 1), (8, 1), (12, 2), (24, 4), (512, 4)):
        monkeypatch.setattr(
            "benchharness.driver.request.main_memory", lambda size=gigabytes: size << 30
        )
        assert len(check(model=["bert"]).slots) == jobs
        assert len(check(model=["tiny", "bert"]).slots) == jobs


def test_gpu_jobs_are_estimated_to_need_less_main_memory_than_cpu_jobs(monkeypatch):
    monkeypatch.setattr("benchharness.engines.slots._count_cores", lambda: 8)
    monkeypatch.setattr("benchharness.driver.request.main_memory", lambda: 12 << 30)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert len(check(model=["bert"], device="cpu").slots) == 2
    assert len(check(model=["bert"], device="cuda").slots) == 4, "2 GB, and 8 bytes a parameter"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"model": ["tinny"]}, "'tinny'. Did you mean 'tiny'?"),
        ({"suite": ["gleu"]}, "no suite is called 'gleu'. Did you mean 'glue'?"),
        ({"task": ["colla"]}, "'colla'. Did you mean 'cola'?"),
        ({"task": ["xyz"]}, "`bench show tasks` shows them."),
        ({"suite": [], "task": ["colla"]}, "no task is called 'colla'. Did you mean 'cola'?"),
        ({"suite": []}, "nothing to run: pass a suite (--suite glue)"),
        ({"seeds": 2, "seed": [3]}, "--seeds and --seed cannot be combined"),
        ({"set": ["epochs"]}, "--set 'epochs' is not a name=value"),
        ({"set": ["=3"]}, "is not a name=value"),
        ({"set": ["epochs= "]}, "is not a name=value"),
        ({"set": ["epochs=3", "epochs=4"]}, "--set has two values for epochs: 3 and 4."),
        ({"jobs": "many"}, "--jobs must be auto or a whole number from 1 up, got many"),
        ({"jobs": "0"}, "--jobs must be auto or a whole number from 1 up, got 0"),
        ({"device": "gpu"}, "no device is called 'gpu'"),
    ],
)
def test_invalid_option_of_bench_run_is_reported_in_one_sentence(words, sentence):
    error = complaints(**words)
    assert sentence in str(error)
    assert "\n" not in str(error)
    assert error.exit_code == 2


def test_all_invalid_options_of_bench_run_are_reported_at_once():
    error = complaints(
        model=["tinny", "bret"],
        suite=["gleu"],
        set=["epochs"],
        seeds=1,
        seed=[1],
        device="gpu",
        jobs="x",
    )
    lines = str(error).splitlines()
    for word, line in zip(
        ["tinny", "bret", "gleu", "--seed", "epochs", "--jobs", "gpu"], lines, strict=True
    ):
        assert word in line


def test_bench_run_on_a_folder_without_a_checkpoint_exits_with_4(tmp_path):
    error = complaints(model=[str(tmp_path)])
    assert isinstance(error, ModelError)
    assert error.exit_code == 4
    mixed = complaints(model=[str(tmp_path)], suite=["gleu"])
    assert mixed.exit_code == 2


def test_protocol_of_a_recipe_gives_defaults_for_tasks_limit_and_seeds():
    protocol = protocol_of("checkpoints")
    silent = check(suite=[], recipe="checkpoints")
    assert tuple(names(silent)) == protocol.tasks
    assert (silent.options.limit, len(silent.seeds)) == (protocol.limit, protocol.seeds)
    said = check(suite=["glue"], recipe="checkpoints", limit=7, seed=[9])
    assert names(said) == list(SUITES["glue"].tasks)
    assert (said.options.limit, said.seeds) == (7, (9,))
    assert check(suite=["glue"], recipe="paper").options.limit is None
    assert "nothing to run" in str(complaints(suite=[], recipe="fast"))


def test_an_unknown_recipe_is_reported_once():
    (said,) = str(complaints(recipe="chekpoints")).splitlines()
    assert "Did you mean 'checkpoints'?" in said
