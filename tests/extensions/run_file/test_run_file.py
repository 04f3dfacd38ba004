"""Tests of --config and --write-config, and of `bench show config`."""

import json
import tomllib
from pathlib import Path

import pytest

from benchharness.cli.app import load_command
from benchharness.driver.session import Session
from benchharness.errors import BenchError
from benchharness.extensions.run_file.file import (
    COMMANDS,
    command_words,
    options_of,
    read_options,
    to_toml,
)
from tests.helpers.extensions import with_all_extensions

RUN = ("run", "--model", "tiny", "--task", "cola,rte", "--data", "mini", "--seeds", "2")
FILE = """
model = "tiny"
task = ["cola", "rte"]
data = "mini"
seeds = 2
"""


def write(text, name="run.toml"):
    Path(name).write_text(text, encoding="utf-8")


@pytest.fixture
def asked(bench, monkeypatch):
    """Return a function that returns the RunOptions of a command, and its messages."""
    found = []

    def stop(options, *_rest, **_more):
        found.append(options)
        raise BenchError("nothing is run.")

    monkeypatch.setattr(Session, "of", stop)
    if "check" in COMMANDS:
        gate = "benchharness.extensions.gate.command"
        monkeypatch.setattr(f"{gate}.run_gate", stop)
        monkeypatch.setattr(f"{gate}.read_baseline", lambda path: path)

    def ask(*words):
        ended = bench(*words)
        *messages, last = ended.err.splitlines()
        assert (ended.code, ended.out, last) == (2, "", "bench: nothing is run.")
        return found.pop(), messages

    return ask


def test_config_file_plans_the_same_jobs_as_the_command_line(bench):
    """The keys of jobs have no part that depends on the file."""
    few = (
        "--suite",
        "glue",
        "--limit",
        "16",
        "--set",
        "learning_rate=2e-4,3e-4",
        "--set",
        "epochs=1",
    )
    written = bench(*RUN, *few, "--write-config", "run.toml")
    assert written.code == 0, written.err
    assert written.out == "wrote run.toml; run it with `bench run --config run.toml`\n"
    assert not Path("results").exists()
    plans = [
        json.loads(bench(*words, "--dry-run", "--json").out)
        for words in ((*RUN, *few), ("run", "--config", "run.toml"))
    ]
    assert plans[0] == plans[1]
    assert len(plans[0]["jobs"]) > 8


@pytest.mark.parametrize(
    "words",
    [
        RUN,
        (*RUN, "--set", "learning_rate=2e-5,3e-5", "--set", "layers=0+2", "--set", "epochs=x2"),
        (*RUN, "--set", "epochs=3", "--set", "epochs=3", "--set", "fast"),
        (*RUN, "--no-baselines", "--test", "--keep-models", "--timeout", "0"),
        (
            *RUN[:-2],
            "--seed",
            "7",
            "--seed",
            "0",
            "--shots",
            "8,32,all",
            "--checkpoint-every",
            "2.5",
        ),
        (*RUN, "--engine-option", "gres=gpu:1,tmp", "--engine-option", "nice=1.0"),
        (*RUN, "--engine-option", "begin=now+1", "--engine-option", "cpus=08"),
        ("run", "--model", 'a "b"\n\\c\x7f', "--data-file", "é ☃.csv", "--columns", "text=a b"),
        ("run", "--model", "a,b", "--model", "mine=a,b", "--model", "c/step-*", "--suite", "glue"),
        ("run", "--model", "tiny", "--plugin", "one.py", "--plugin", "two.py"),
    ],
    ids=lambda words: " ".join(words[-2:]),
)
def test_written_config_file_gives_the_same_options_as_the_command_line(asked, bench, words):
    Path("a,b").mkdir()
    write("MODELS = ()\n", "one.py")
    write("MODELS = ()\n", "two.py")
    assert bench(*words, "--write-config", "run.toml").code == 0
    assert asked("run", "--config", "run.toml") == asked(*words)


CANDIDATES = ("3", "a=1", "a", "fp32", "0.5")
"""Values of options, of which each option accepts at least one."""


@pytest.mark.parametrize(
    ("name", "key"),
    [(name, key) for name in COMMANDS for key in options_of(load_command(name))],
    ids=" ".join,
)
def test_every_option_can_be_written_to_and_read_from_a_config_file(name, key, tmp_path):
    command = load_command(name)
    param = options_of(command)[key]
    flag = param.opts[0]
    for words in [[flag]] if param.is_flag else ([flag, word] for word in CANDIDATES):
        context = load_command(name).make_context(name, words, resilient_parsing=True)
        value = context.params[param.name]
        if value:
            break
    assert value, "no candidate is a value of this option"
    file = tmp_path / "run.toml"
    text, hidden = to_toml({param.name: value}, context.command, file)
    file.write_text(text)
    assert hidden == []
    assert list(tomllib.loads(text)) == [key]
    assert read_options(file, context) == ({param.name: value}, [])
    again = list(command_words({param.name: value}, context.command))
    context = load_command(name).make_context(name, again, resilient_parsing=True)
    assert context.params[param.name] == value


def test_written_config_file_is_readable_toml(bench):
    words = ("--set", "learning_rate=2e-5,0.003", "--set", "epochs=3", "--set", "as_text=true")
    bench(*RUN, *words, "--no-baselines", "--write-config", "here/run.toml")
    assert Path("here/run.toml").read_text() == (
        "# Options of `bench run`. `bench run --config run.toml` runs it.\n"
        'model = "tiny"\n'
        'task = ["cola", "rte"]\n'
        'data = "mini"\n'
        "seeds = 2\n"
        "no_baselines = true\n"
        "\n"
        "[set]\n"
        'learning_rate = ["2e-5", 0.003]\n'
        "epochs = 3\n"
        "as_text = true\n"
    )


def test_config_file_accepts_lists_tables_and_comma_separated_values(asked):
    write(
        'model = { mine = "a", other = "b" }\ntask = "cola,rte"\nshots = [8, "all"]\njobs = 2\n'
        'data_file = "~/rows.csv"\ncolumns = { text = ["a", "b"], label = "c" }\n'
        'set = ["epochs=3"]\nengine_option = { cpus = 2, requeue = true }\n'
    )
    options, _ = asked("run", "--config", "run.toml")
    assert options.model == ("mine=a", "other=b")
    assert options.task == ("cola", "rte")
    assert (options.shots, options.jobs) == ("8,all", "2")
    assert options.data_file == str(Path("~/rows.csv").expanduser())
    assert options.columns == "text=a+b,label=c"
    assert options.set == ("epochs=3",)
    assert options.engine_options == ("cpus=2", "requeue=true")


def test_command_line_options_override_the_config_file(asked, monkeypatch):
    monkeypatch.setenv("BENCH_DB", "environment.sqlite")
    write(f'{FILE}db = "file.sqlite"\n[set]\nepochs = 2\nlearning_rate = 1e-4\n')
    options, _ = asked("run", "--config", "run.toml")
    assert options.db == "file.sqlite"
    words = (
        "--task",
        "mrpc",
        "--set",
        "epochs=5",
        "--set",
        "adam_beta1=0.8",
        "--db",
        "typed.db",
    )
    options, messages = asked("run", *words, "--config", "run.toml")
    assert messages == []
    assert (options.model, options.task, options.seeds) == (("tiny",), ("mrpc",), 2)
    assert options.set == ("learning_rate=0.0001", "epochs=5", "adam_beta1=0.8")
    assert options.db == "typed.db"


def test_seed_and_seeds_on_the_command_line_override_each_other_in_the_config_file(asked):
    write(FILE)
    options, _ = asked("run", "--config", "run.toml", "--seed", "7")
    assert (options.seed, options.seeds) == ((7,), None)
    write('model = "tiny"\nseed = [7, 8]\n')
    options, _ = asked("run", "--config", "run.toml", "--seeds", "3")
    assert (options.seed, options.seeds) == ((), 3)
    options, _ = asked("run", "--config", "run.toml", "--seeds", "3", "--seed", "1")
    assert (options.seed, options.seeds) == ((1,), 3)  # the run reports this conflict as an error


def test_options_of_a_config_file_and_the_command_line_are_written_together(bench, asked):
    write(f"{FILE}[set]\nepochs = 2\n")
    words = ("--seeds", "5", "--set", "learning_rate=1e-4")
    bench("run", "--config", "run.toml", *words, "--write-config", "more.toml")
    options, _ = asked("run", "--config", "more.toml")
    assert options == asked("run", "--config", "run.toml", *words)[0]
    assert (options.seeds, options.set) == (5, ("epochs=2", "learning_rate=1e-4"))


@with_all_extensions
def test_other_commands_use_a_config_file_of_bench_run_and_ignore_unknown_options(asked):
    write(f'{FILE}suite = "glue"\nno_baselines = true\n')
    options, messages = asked(
        "which", "--config", "run.toml", "--among", "tiny,bert", "--minutes", "1"
    )
    assert (options.model, options.task, options.seeds) == (("tiny", "bert"), ("cola", "rte"), 2)
    assert messages == ["bench: run.toml: `bench which` ignores the keys model, no_baselines."]
    options, messages = asked("paper", "--config", "run.toml", "--against", "majority")
    assert (options.model, options.suite, options.data) == (("tiny",), ("glue",), "mini")
    assert messages == ["bench: run.toml: `bench paper` ignores the keys no_baselines."]
    options, messages = asked("check", "--config", "run.toml")
    assert (options.model, options.task, options.suite) == (("tiny",), ("cola", "rte"), ("glue",))
    assert messages == ["bench: run.toml: `bench check` ignores the keys no_baselines."]


@with_all_extensions
def test_required_options_of_bench_which_may_be_in_a_config_file(asked, bench):
    words = ("which", "--among", "tiny,bert", "--minutes", "1.5", "--task", "rte")
    written = bench(*words, "--write-config", "which.toml")
    assert written.out == "wrote which.toml; run it with `bench which --config which.toml`\n"
    assert asked("which", "--config", "which.toml") == asked(*words)


@with_all_extensions
@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        (
            "run",
            'modle = "tiny"',
            "run.toml: no option of `bench run` is called 'modle'. Did you mean 'model'?",
        ),
        (
            "run",
            'data-file = "a.csv"',
            "run.toml: no option of `bench run` is called 'data-file'. Did you mean 'data_file'?",
        ),
        (
            "check",
            "zzz = 1",
            (
                "run.toml: no option of `bench check` is called 'zzz'. `bench check --help-all` "
                "lists the options; a key has underscores and no dashes."
            ),
        ),
        ("run", 'config = "a"', "run.toml: no option of `bench run` is called 'config'."),
        (
            "run",
            "learning_rate = 2e-5",
            (
                "run.toml: learning_rate is not an option of `bench run`, but a hyperparameter: "
                "write learning_rate in the table [set]."
            ),
        ),
        (
            "run",
            "num_train_epochs = 3",
            (
                "run.toml: num_train_epochs is not an option of `bench run`, but a hyperparameter: "
                "write epochs in the table [set]."
            ),
        ),
        (
            "run",
            'among = ["tiny"]',
            (
                "run.toml: among is an option of `bench which`, not of `bench run`. Use `bench "
                "which --config run.toml`, or remove the key."
            ),
        ),
        (
            "which",
            'against = "tiny"',
            (
                "run.toml: against is an option of `bench paper`, not of `bench which`. Use `bench "
                "paper --config run.toml`, or remove the key."
            ),
        ),
        ("run", "seeds = 'three'", "run.toml: seeds: "),
        ("run", "seeds = 2.5", "run.toml: seeds: "),
        ("run", "seeds = 0", "run.toml: seeds: "),
        ("run", "seeds = true", "run.toml: seeds is true, expected text or a number."),
        ("run", "seeds = [1, 2]", "run.toml: seeds is [1, 2], expected text or a number."),
        ("run", "test = 1", "run.toml: test is 1, expected true or false."),
        ("run", "data = 2026-11-28", "run.toml: data is datetime.date(2026, 11, 28), expected"),
        (
            "run",
            "task = [1, [2]]",
            "run.toml: task is [1, [2]], expected text, a number or a list of them.",
        ),
        (
            "run",
            "set = { glue = { epochs = 3 } }",
            (
                "run.toml: set is {'glue': {'epochs': 3}}, expected text, a number, a list of "
                "them or a table of names and values."
            ),
        ),
        ("run", "precision = 'fp8'", "run.toml: precision: "),
        ("run", "model = 'tiny", "run.toml is not valid TOML: "),
        ("run", 'model = "a"\nmodel = "b"', "run.toml is not valid TOML: "),
        ("run", None, "run.toml cannot be read: No such file or directory. `bench run --model "),
    ],
)
def test_error_in_a_config_file_is_reported_in_one_sentence(bench, name, text, sentence):
    if text is not None:
        write(text)
    rest = {"which": ("--among", "a,b", "--minutes", "1")}.get(name, ("--model", "tiny"))
    ended = bench(name, "--config", "run.toml", *rest)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"bench: {sentence}")
    assert ended.err.count("\n") == 1


def test_byte_order_mark_in_a_config_file_is_skipped(asked):
    Path("run.toml").write_text(FILE.strip(), encoding="utf-8-sig")
    assert asked("run", "--config", "run.toml")[0].seeds == 2


def test_config_file_that_is_not_utf_8_or_is_a_folder_is_an_error(bench):
    Path("run.toml").write_bytes("model = 'é'".encode("latin-1"))
    assert "run.toml is not UTF-8 text" in bench("run", "--config", "run.toml").err
    assert ". cannot be read: Is a directory." in bench("run", "--config", ".").err


def test_config_file_without_a_model_needs_a_model_on_the_command_line(bench, asked):
    write("task = 'rte'\nmodel = []\n")
    assert bench("run", "--config", "run.toml").err.startswith("bench: `bench run` needs --model")
    assert asked("run", "--config", "run.toml", "--model", "tiny")[0].task == ("rte",)


def test_write_config_does_not_overwrite_an_existing_file(bench):
    write(FILE)
    ended = bench(*RUN, "--write-config", "run.toml")
    assert (ended.code, Path("run.toml").read_text()) == (2, FILE)
    assert "run.toml exists already" in ended.err


def test_write_config_leaves_out_passwords(bench):
    url = "postgresql://me:secret@host/db"
    ended = bench(*RUN, "--db", url, "--write-config", "run.toml")
    assert "run.toml lacks the password in db: pass it in another way." in ended.err
    assert "secret" not in Path("run.toml").read_text()
    assert tomllib.loads(Path("run.toml").read_text())["db"] == "postgresql://me@host/db"


def test_write_config_refuses_text_that_is_not_utf_8(bench):
    ended = bench(*RUN, "--data", "\udcff", "--write-config", "run.toml")
    assert (ended.code, Path("run.toml").exists()) == (2, False)
    assert "is not UTF-8 text, so it cannot be written" in ended.err


def test_show_config_prints_options_and_the_equivalent_command_line(bench):
    write(f'{FILE}no_baselines = true\ndata_file = "my rows.csv"\n[set]\nepochs = [2, 3]\n')
    shown = bench("show", "config", "run.toml")
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    found = [line.split() for line in lines]
    assert ["option", "value", "used", "by"] in found
    assert ["model", "tiny", "run,", "paper,", "check"] in found
    assert ["set", "epochs", "2,", "3", "run,", "which,", "paper,", "check"] in found
    words = "bench run --model tiny --task cola --task rte --data mini --seeds 2"
    words += " --data-file 'my rows.csv' --set epochs=2,3 --no-baselines"
    assert lines[-1] == f"`bench run --config run.toml` is `{words}`"


@with_all_extensions
def test_show_config_as_json_names_the_command_that_has_the_options(bench):
    write('among = ["tiny", "bert"]\nminutes = 2\ntask = "rte"\nmodel = "tiny"\n')
    found = json.loads(bench("show", "config", "run.toml", "--json").out)
    assert found["command"] == "which"
    assert found["used_by"]["minutes"] == ["which"]
    assert found["options"]["among"] == ["tiny", "bert"]
    words = ["bench", "which", "--task", "rte", "--among", "tiny", "--among", "bert"]
    assert sorted(found["words"]) == sorted([*words, "--minutes", "2.0"])


@pytest.mark.parametrize("text", ["zzz = 1", "seeds = 'x'", "model = ["])
def test_show_config_refuses_a_file_that_no_command_can_run(bench, text):
    write(text)
    ended = bench("show", "config", "run.toml")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith("bench: run.toml")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_lists_the_options_for_config_files(bench, name):
    assert "--config FILE" in bench(name, "--help").out
    assert "--write-config FILE" in bench(name, "--help-all").out
