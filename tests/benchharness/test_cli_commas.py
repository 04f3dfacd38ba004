"""Tests of options whose values may have several names, separated by commas."""

import json

import pytest

from benchharness.cli.app import load_command
from benchharness.cli.commands import commands
from benchharness.driver.options import RunOptions, names_in

OPTIONS = ("--model", "--suite", "--task")

LATER = {("export", "--model"), ("show published", "--model")}
"""Options that are split when names are known, because these names may contain commas."""


def repeatable():
    """Return each option of OPTIONS that a command takes more than once."""
    return [
        (name, param.opts[0])
        for name, line in commands().items()
        for param in (load_command(name).params if line.place else ())
        if param.multiple and param.opts[0] in OPTIONS
    ]


def parsed(name, *words):
    context = load_command(name).make_context(name, list(words), resilient_parsing=True)
    return context.params


@pytest.mark.parametrize(("name", "option"), repeatable(), ids=" ".join)
def test_each_repeatable_option_for_names_accepts_a_list_with_commas(name, option):
    expected = ["a,b", "c"] if (name, option) in LATER else ["a", "b", "c"]
    values = parsed(name, option, "a,b", option, "c")[option.removeprefix("--")]
    assert list(values) == expected


def test_repeatable_options_for_names_are_found_in_all_commands():
    found = repeatable()
    assert {("run", option) for option in OPTIONS} < {*found}
    assert {*LATER} < {*found}
    assert {name for name, _ in found} > {"leaderboard", "report", "show tasks", "show runs"}


@pytest.mark.parametrize("option", ["--metric", "--set", "--log"])
def test_commas_in_values_of_other_options_are_kept(option):
    values = parsed("run", "--model", "m", option, "a=1,2")[option.removeprefix("--")]
    assert list(values) == ["a=1,2"]


def test_existing_path_with_commas_is_one_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lr=1,2" / "step-1").mkdir(parents=True)
    for word in ("lr=1,2", "./lr=1,2", "mine=lr=1,2", "lr=1,2/step-*", "mine=lr=1,2/step-*"):
        assert names_in([word]) == [word]
    assert names_in(["lr=1,3", "a, b ,,a"]) == ["lr=1", "3", "a", "b"]
    (tmp_path / "small").mkdir()
    assert names_in(["tiny,mine=./small"]) == ["tiny", "mine=./small"]
    assert names_in(["mine=small,tiny"]) == ["mine=small", "tiny"]


def test_names_separated_by_commas_are_run_like_repeated_options(bench):
    rest = ("--data", "mini", "--seeds", "1", "--limit", "16", "--dry-run", "--json")
    commas = bench("run", "--model", "tiny,majority", "--task", "cola,glue/rte", *rest)
    assert commas.code == 0, commas.err
    each = ("--model", "tiny", "--model", "majority", "--task", "cola", "--task", "glue/rte")
    assert json.loads(commas.out)["jobs"] == json.loads(bench("run", *each, *rest).out)["jobs"]


@pytest.mark.parametrize("word", ["", ","])
def test_empty_name_is_an_error(bench, word):
    ended = bench("run", "--model", "tiny", "--task", word, "--data", "mini", "--dry-run")
    assert ended.code == 2
    assert f"no task is called {word!r}" in ended.err


def test_published_system_whose_name_has_a_comma_is_found_by_its_name(bench):
    words = ("show", "published", "--suite", "superglue", "--json", "--model")
    names = [
        {row["system"] for row in json.loads(bench(*words, model).out)}
        for model in ("Allabs Team, Transformers", "no such,allabs", "allabs,")
    ]
    assert names[0] == names[1] == names[2] == {"Allabs Team, Transformers"}


def test_commas_in_names_are_not_separators_in_python():
    assert RunOptions.of(model=["a,b"], task="c,d").task == ("c,d",)
    assert RunOptions.of(model=["a,b"]).model == ("a,b",)
