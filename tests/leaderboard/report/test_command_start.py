"""The command of a report for runs that started from something else than the checkpoint."""

from dataclasses import replace

import pytest

from leaderboard.job import START_FROM, Job, Setting
from leaderboard.report.run import build_run, command_of
from tests.helpers.results import make_job, make_result

KEY = "ab" * 32


def started(value: str, source: str, recipe: str = "paper", **fields: object) -> Job:
    job = make_job(task="glue/rte", recipe=recipe, settings={"epochs": 3})
    settings = {**job.settings, START_FROM: Setting(value=value, source=source)}
    return replace(job, settings=settings, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (started("glue/mnli", "a paper", start_from=KEY), ""),
        (started("glue/mnli", "--start-from", start_from=KEY), " --start-from glue/mnli"),
        (started("glue/mnli", "mine.toml", "mine", start_from=KEY), " --start-from glue/mnli"),
        (started("scratch", "--start-from"), " --start-from scratch"),
        (
            started("org/x", "--start-from", model="minilm from org/x", checkpoint="org/x"),
            " --start-from org/x",
        ),
        (
            started(
                "trained",
                "--start-from",
                model="minilm from trained",
                checkpoint="/folder/trained",
                weights="sha256:00",
            ),
            " --start-from /folder/trained",
        ),
    ],
)
def test_the_command_says_the_start_where_the_recipe_does_not(job: Job, words: str) -> None:
    command = command_of(job)
    assert command.startswith(f"bench run --model minilm{words} --suite glue --task rte")
    assert "--set start_from" not in command


def test_the_page_says_what_a_run_started_from() -> None:
    job = started("glue/mnli", "a paper", start_from=KEY)
    assert build_run(make_result(job)).job.started_from == "glue/mnli (run abababababab)"
