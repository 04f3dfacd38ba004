"""Fuzz tests: a reader accepts untrusted bytes or raises a BenchError.

Inputs are small valid files with damaged bytes, lines, fields and JSON, and some files of another
format. In the ordinary suite, hypothesis draws the inputs and shrinks those that fail; the soak run
draws more than 100,000 from seeds. Every bug that was found by fuzzing has a regression test among
the other tests of the reader.
"""

import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from benchharness.errors import BenchError
from tests.helpers.extensions import of_extensions
from tests.helpers.fuzz.damage import anything, damaged
from tests.helpers.fuzz.of_folders import FOLDERS
from tests.helpers.fuzz.of_models import MODELS_AND_RECIPES
from tests.helpers.fuzz.of_rows import ROWS
from tests.helpers.fuzz.of_stores import STORES
from tests.helpers.fuzz.reader import Case, Reader
from tests.helpers.soak import in_part

READERS = (*ROWS, *STORES, *MODELS_AND_RECIPES, *FOLDERS)

QUICK = 6
"""Inputs of each reader, times its share, in the ordinary suite."""

FEW = 24
"""Most valid files that each reader reads in the ordinary suite."""

LONG = 5_200
"""Inputs of each reader, times its share, in the soak run: more than 100,000 in all."""

every_reader = pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)


def is_refused(draw: Random, cases: list[Case], folder: Path) -> bool:
    """Read a drawn input, and return whether it was refused; four in five are damaged files.

    A refusal has one line per sentence.
    """
    case = draw.choice(cases)
    content = damaged(draw, case.content) if draw.randrange(5) else anything(draw)
    said, sentences = "", 0
    try:
        case.read(content, folder)
    except BenchError as error:
        said, sentences = str(error), len(error.args)
    except BaseException as error:
        error.add_note(f"{len(content)} bytes: {content[:500]!r}")
        raise
    assert len(said.splitlines()) == sentences
    return bool(said)


@pytest.mark.parametrize("most", in_part([FEW, 10_000], [FEW]), ids=["few", "all"])
@every_reader
def test_readers_of_user_files_accept_valid_files(
    reader: Reader, most: int, tmp_path: Path
) -> None:
    cases = reader.few_cases(most)
    assert cases, "a reader without a valid file would pass every test"
    for case in cases:
        case.read(case.content, tmp_path)


@every_reader
def test_readers_of_user_files_raise_only_bench_errors_for_mutated_files(
    reader: Reader, tmp_path: Path
) -> None:
    cases, drawn = reader.cases(), list[bool]()

    @settings(
        max_examples=max(4, round(QUICK * reader.share)),
        database=None,
        deadline=None,
        derandomize=True,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(draw=st.randoms(use_true_random=False))
    def read(draw: Random) -> None:
        drawn.append(is_refused(draw, cases, tmp_path))

    read()
    assert len(drawn) >= 4


KINDS = (
    tuple(f"predictions of {head}s" for head in ("pair", "span", "choice", "tag", "coref")),
    *(("odds",), ("submissions",), ("recipe",), ("baseline",), ("archive",)),
    ("tsv", "csv", "jsonl", "squad", "race", "conll"),
    ("kept model",),
    *of_extensions({"explanation": {("training to explain",): ()}}),
    ("conll2012", "quac", "coqa", "hotpotqa", "blimp"),
)
"""Readers of files that users provide, grouped by kind."""


def test_long_fuzz_run_has_at_least_100000_inputs_and_10000_of_every_kind() -> None:
    counts = {reader.name: round(LONG * reader.share) for reader in READERS}
    assert sum(counts.values()) >= 100_000
    for kind in KINDS:
        assert sum(counts[name] for name in kind) >= 10_000, kind


@pytest.mark.soak
@every_reader
def test_readers_of_user_files_raise_only_bench_errors_for_many_mutated_files(
    reader: Reader, tmp_path: Path
) -> None:
    cases, refused = reader.cases(), 0
    count = round(LONG * reader.share)
    for number in range(count):
        refused += is_refused(Random(f"{reader.name} {number}"), cases, tmp_path)
    sys.stdout.write(f"\n{reader.name}: {count} inputs, {refused} refused\n")
    assert refused < count, "what no damage has reached is read"
