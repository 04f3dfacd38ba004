"""Commands that a report shows for runs that started from another run."""

from dataclasses import replace

import pytest

from benchharness.leaderboard.job import START_FROM, Job, Setting, Start
from benchharness.leaderboard.report.run import build_run, command_of
from tests.helpers.results import make_job, make_result

KEY = "ab" * 32


TASK = Start(kind="task", name="glue/mnli")


def started(start: Start, source: str, recipe: str = "paper", **fields: object) -> Job:
    job = make_job(
        task="glue/rte", recipe=recipe, settings={"epochs": 3}, own_recipe=recipe != "paper"
    )
    value = start.name or "scratch"
    settings = {**job.settings, START_FROM: Setting(value=value, source=source)}
    return replace(job, settings=settings, start=start, **fields)  # type: ignore[arg-type]


def checkpoint(name: str) -> Start:
    return Start(kind="checkpoint", name=name, model="minilm")


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (started(TASK, "a paper", start_from=KEY), ""),
        (started(TASK, "--start-from", start_from=KEY), " --start-from glue/mnli"),
        (started(TASK, "mine.toml", "mine", start_from=KEY), " --start-from glue/mnli"),
        (started(Start(kind="pretrained"), "--start-from"), " --start-from pretrained"),
        (
            started(
                checkpoint("org/x"), "--start-from", model="minilm from org/x", checkpoint="org/x"
            ),
            " --start-from org/x",
        ),
        (
            started(
                checkpoint("trained"),
                "--start-from",
                model="minilm from trained",
                checkpoint="/folder/trained",
                weights="sha256:00",
            ),
            " --start-from /folder/trained",
        ),
    ],
)
def test_command_in_the_report_has_the_start_from_option_unless_the_recipe_sets_it(
    job: Job, words: str
) -> None:
    command = command_of(job)
    assert command.startswith(f"bench run --model minilm{words} --suite glue --task rte")
    assert "--set start_from" not in command


def test_run_details_name_the_run_that_training_started_from() -> None:
    job = started(TASK, "a paper", start_from=KEY)
    assert build_run(make_result(job)).job.started_from == "glue/mnli (run abababababab)"
