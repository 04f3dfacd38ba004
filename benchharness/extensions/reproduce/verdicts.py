"""Store verdicts on runs, in an SQLite file next to the database of the runs.

The file may have verdicts on runs that are not in the database, such as the runs of an archive.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

from benchharness.errors import DataError, first_line
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.store.side_file import SideFile
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import counted, digest, grouped

Kind = Literal["bits", "answers", "within", "different"]
"""Kind of a verdict.

* bits: scores, predictions and probabilities are bit-identical
* answers: answers and scores are equal, but other numbers of the predictions differ
* within: answers differ, but the scores differ by no more than those of other seeds
* different: scores differ by more, or the stored run cannot be the result of its job
"""

WORDS: dict[Kind, str] = {
    "bits": "the same bits",
    "answers": "the same answers",
    "within": "other answers within what seeds move",
    "different": "different",
}
"""Description of each kind of verdict, for display and JSON."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Verdict on one stored run, from one repetition of its job.

    Attributes:
        round: Id of the call of `bench reproduce` that gave the verdict.
        key: Key of the job.
        run: Digest of the stored run's key, end and scores (see `identity`).
        kind: Kind of the verdict (see `Kind`).
        differs: First thing that differs, such as "package"; empty if nothing does.
        sentences: One sentence per thing that differs, in the order of `causes.causes`.
        answers: Number of answers that differ.
        rows: Number of compared answers.
        moved: Largest difference between the same number in the old and the new predictions.
        tests: Fields and sentences of the tests (`seeds.ScoreTest`), one per score; empty if the
            scores were not tested.
        machine: Facts about the machine of the repetition, as in a result's provenance.
        versions: Versions of the libraries that the repetition used, keyed by name.
        seconds: Duration of the repetition in seconds.
        finished: Time at which the repetition ended, in UTC as ISO 8601.
    """

    round: str
    key: str
    run: str
    kind: Kind
    differs: str
    sentences: tuple[str, ...]
    answers: int
    rows: int
    moved: float
    tests: tuple[dict[str, Any], ...]
    machine: dict[str, Any]
    versions: dict[str, Any]
    seconds: float
    finished: str

    @property
    def is_good(self) -> bool:
        """True if the run counts as reproduced."""
        return self.kind != "different"

    @property
    def host(self) -> str:
        """Digest that identifies the machine."""
        return str(self.machine.get("host", ""))

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON data, with the kind's description (`WORDS`) as "verdict"."""
        return {"verdict": WORDS[self.kind], **asdict(self)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Create a verdict from the output of `to_json`.

        Raises:
            ValueError: The kind is unknown.
            KeyError: A field is missing.
            TypeError: A field is missing or unknown.
        """
        plain = {name: value for name, value in data.items() if name != "verdict"}
        lists = {name: tuple(plain[name]) for name in ("sentences", "tests")}
        if plain["kind"] not in get_args(Kind):
            raise ValueError(f"unknown kind {plain['kind']!r}")
        return cls(**{**plain, **lists})


def identity(row: RunRow) -> str:
    """Return a digest of a run's key, end and scores, which identifies the run in verdicts.

    Running the job again, or editing a score, gives another digest, to which earlier verdicts do
    not apply.
    """
    return digest([row.key, row.finished, {task: {**each} for task, each in row.scores.items()}])


_TABLE = """
CREATE TABLE IF NOT EXISTS reproductions (
    round TEXT NOT NULL,
    key TEXT NOT NULL,
    content TEXT NOT NULL,
    PRIMARY KEY (round, key)
)
"""


class Verdicts:
    """File with the verdicts on the runs of a store.

    Every method is one transaction, and raises StoreError if the file cannot be used.

    Args:
        store: Store of the runs.
    """

    def __init__(self, store: Store) -> None:
        self.file = SideFile.of(store, ".reproduced", "the verdicts of `bench reproduce`", _TABLE)

    def add(self, verdict: Verdict) -> None:
        """Store a verdict; it replaces an earlier verdict of the same round on the same job."""
        with self.file.opened() as db:
            content = json.dumps(verdict.to_json())
            row = (verdict.round, verdict.key, content)
            db.execute("INSERT OR REPLACE INTO reproductions VALUES (?, ?, ?)", row)

    def all(self, keys: Collection[str] | None = None) -> list[Verdict]:
        """Return the verdicts on the jobs with these keys (None for all jobs), oldest first."""
        if not self.file.path.exists():
            return []
        with self.file.opened() as db:
            rows = db.execute("SELECT key, content FROM reproductions ORDER BY rowid").fetchall()
            wanted = [content for key, content in rows if keys is None or key in keys]
            return [Verdict.from_json(json.loads(content)) for content in wanted]


def read_verdicts(file: Path) -> list[Verdict]:
    """Read the verdicts that `bench reproduce --list --json` printed on another machine.

    Raises:
        DataError: The file is not a list of verdicts.
    """
    try:
        listed = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(listed, list):
            raise TypeError("it is not a list")
        found = [Verdict.from_json(each) for each in listed]
        texts = [t for v in found for t in (v.round, v.key, v.run, v.differs, *v.sentences)]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("a text is missing")
        if not all(isinstance(each.machine, dict) for each in found):
            raise TypeError("the machine is missing")
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{file} has no verdicts ({first_line(error)}): expected the output of `bench "
            "reproduce --list --json`."
        ) from error
    return found


def by_run(verdicts: Sequence[Verdict], rows: Sequence[RunRow]) -> dict[str, list[Verdict]]:
    """Return the verdicts that apply to stored runs, keyed by the key of the run.

    Verdicts on another attempt at the same job, and on a run with other scores, are left out.
    """
    runs = {(row.key, identity(row)): row.key for row in rows}
    return grouped((runs[found], v) for v in verdicts if (found := (v.key, v.run)) in runs)


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return a summary of the verdicts on one run, e.g. "reproduced 3 times on 2 machines".

    Verdicts of the kind "different" are counted separately, with the things that differ.
    """
    good = [each for each in verdicts if each.is_good]
    parts = []
    if good:
        kinds = grouped((WORDS[each.kind], each) for each in good)
        shown = [words if len(kinds) == 1 else f"{len(n)} {words}" for words, n in kinds.items()]
        times = "once" if len(good) == 1 else f"{len(good)} times"
        machines = counted(len({each.host for each in good}), "machine")
        parts.append(f"reproduced {times} on {machines} ({', '.join(shown)})")
    if bad := [each for each in verdicts if not each.is_good]:
        what = ", ".join(dict.fromkeys(each.differs for each in bad))
        times = "once" if len(bad) == 1 else f"{len(bad)} times"
        parts.append(f"{'' if good else 'not reproduced: '}different {times} ({what})")
    return "; ".join(parts)
