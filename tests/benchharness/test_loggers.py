"""Tests of loggers, which receive events of the driver and never stop a run by failing."""

import json
import threading
from pathlib import Path

import pytest

from benchharness.discovery import places
from benchharness.errors import BenchError
from benchharness.loggers import (
    Listening,
    LoggedRun,
    curve_of,
    facts_of,
    open_loggers,
)
from benchharness.progress import Progress
from tests.helpers.results import make_failure, make_job, make_result

TRAINING = Progress(phase="training", step=7, steps=20, loss=0.61, examples_per_second=30.0)


class Watching:
    """A watcher that records its events."""

    def __init__(self):
        self.told, self.said = [], []

    def say(self, line):
        self.said.append(line)

    def report(self, job, progress):
        self.told.append(("report", job.key))

    def finish(self, outcome):
        self.told.append(("finish", outcome.job.key))

    def leave_out(self, job):
        self.told.append(("leave_out", job.key))


class Remembering:
    """A logger that records its calls, and raises or waits in a given method."""

    def __init__(self, raises="", waits=""):
        self.calls = []
        self.raises = raises
        self.waits = waits
        self.go_on = threading.Event()

    place = "here"

    def begin(self, run):
        self._take("begin", run)

    def log(self, key, step, values):
        self._take("log", key, step, values)

    def end(self, key, facts, *, failed):
        self._take("end", key, facts, failed)

    def close(self):
        self._take("close")

    def _take(self, name, *words):
        if name == self.raises:
            raise OSError("no  route\nto host")
        if name == self.waits:
            self.go_on.wait()
        self.calls.append((name, *words))


def listen(loggers, tell, error=None):
    """Return the events of a watcher and the warnings, with the given loggers attached."""
    watcher = Watching()
    warnings = watcher.said
    makers = {name: lambda logger=logger: logger for name, logger in loggers.items()}
    try:
        with Listening(watcher, makers) as listening:
            tell(listening)
            if error is not None:
                raise error
    except KeyboardInterrupt:
        pass
    return watcher.told, warnings


def one_run(listening):
    result = make_result()
    listening.report(result.job, Progress(phase="loading"))
    listening.report(result.job, TRAINING)
    listening.finish(result)


def test_logger_gets_begin_log_end_and_close_in_order():
    logger, result = Remembering(), make_result()
    told, warnings = listen({"mine": logger}, one_run)
    key = result.job.key
    assert told == [("report", key), ("report", key), ("finish", key)]
    assert warnings == ["--log mine: here"]
    names = [call[0] for call in logger.calls]
    assert names == ["begin", "log", "log", "log", "end", "close"]
    live, first, second = logger.calls[1:4]
    assert live == ("log", key, 7, {"live/loss": 0.61, "live/examples_per_second": 30.0})
    assert first == ("log", key, 10, {"train/loss": 0.69, "train/learning_rate": 2e-5})
    assert second[2] == 20
    assert {"train/loss", "dev/accuracy"} <= second[3].keys()


def test_live_losses_are_logged_at_most_once_per_second():
    logger = Remembering()

    def tell(listening):
        for _ in range(50):
            listening.report(make_job(), TRAINING)

    listen({"mine": logger}, tell)
    assert [call[0] for call in logger.calls] == ["begin", "log", "close"]


def test_logger_gets_begin_and_end_of_a_failed_job_without_progress():
    logger, failure = Remembering(), make_failure()
    listen({"mine": logger}, lambda listening: listening.finish(failure))
    begin, end, _ = logger.calls
    assert begin[1] == LoggedRun.of(failure.job)
    assert end == ("end", failure.job.key, {"status": "diverged", "error": failure.error}, True)


@pytest.mark.parametrize("method", ["begin", "log", "end", "close"])
def test_logger_that_raises_causes_one_warning_and_other_loggers_continue(method):
    broken, sound = Remembering(raises=method), Remembering()
    told, warnings = listen({"broken": broken, "sound": sound}, one_run)
    assert len(told) == 3
    assert [call[0] for call in sound.calls][-1] == "close"
    failed, place = sorted(warnings)
    assert place == "--log sound: here"
    assert "--log broken failed" in failed


def test_logger_that_cannot_be_created_causes_a_warning():
    def make():
        raise RuntimeError("no login")

    watcher = Watching()
    with Listening(watcher, {"broken": make}) as listening:
        one_run(listening)
    assert "RuntimeError: no login" in watcher.said[0]


def test_a_hanging_logger_blocks_neither_the_run_nor_its_end(monkeypatch):
    monkeypatch.setattr("benchharness.loggers.LAST_SECONDS", 0.3)
    logger = Remembering(waits="begin")
    told, warnings = listen({"slow": logger}, one_run)  # returns while the logger still waits
    logger.go_on.set()
    assert len(told) == 3
    assert "was not done 0.3 seconds after the last job" in warnings[0]


def test_interrupted_run_closes_open_loggers():
    logger = Remembering()
    listen(
        {"mine": logger},
        lambda listening: listening.report(make_job(), TRAINING),
        KeyboardInterrupt(),
    )
    assert logger.calls[-1] == ("close",)


def test_run_without_loggers_reports_events_only_to_the_progress_display():
    told, warnings = listen({}, one_run)
    assert len(told) == 3
    assert warnings == []


def test_the_logged_config_has_every_setting_with_its_source():
    run = LoggedRun.of(make_job(model="a/b", task="glue/rte", seed=3))
    assert run.name == "a/b glue/rte seed 3"
    assert run.config["settings/learning_rate"] == 2e-5
    assert run.config["sources/learning_rate"] == "a paper"
    assert run.config["job"] == run.key
    assert run.folder_name == f"a-b-glue-rte-seed-3-{run.key[:12]}"


def test_neither_paths_nor_tokens_nor_the_host_name_are_logged(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    job = make_job(data="/home/me/glue", checkpoint="/home/me/model")
    provenance = {"machine": {"host": "5bce98f73f3e", "cpu": "a processor"}, "nothing": None}
    result = make_result(job, provenance=provenance)
    told = json.dumps([vars(LoggedRun.of(job)), list(curve_of(result)), facts_of(result)])
    assert "/home/me" not in told
    assert "5bce98f73f3e" not in told
    assert "hf_secret" not in told
    assert "a processor" in told


def test_losses_that_are_nan_are_not_logged():
    from dataclasses import replace

    result = make_result()
    points = tuple(replace(point, loss=float("nan")) for point in result.curve)
    assert all("train/loss" not in values for _, values in curve_of(replace(result, curve=points)))


def test_unknown_loggers_and_missing_packages_are_reported_in_one_sentence(monkeypatch, tmp_path):
    with pytest.raises(BenchError, match=r"no logger is called 'tensorbord'\. Did you mean"):
        open_loggers(["tensorbord"], tmp_path)
    monkeypatch.setattr("benchharness.loggers.find_spec", lambda name: None)
    with pytest.raises(BenchError, match="needs the package wandb"):
        open_loggers(["wandb"], tmp_path)


def test_empty_folder_with_the_name_of_a_tracker_package_does_not_count_as_installed(
    monkeypatch, tmp_path
):
    (tmp_path / "mlflow").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    with pytest.raises(BenchError, match="needs the package mlflow"):
        open_loggers(["mlflow"], tmp_path)


def test_every_built_in_logger_has_an_installation_extra_of_the_same_name():
    import tomllib

    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert (
        places("loggers").keys() <= tomllib.loads(text)["project"]["optional-dependencies"].keys()
    )
