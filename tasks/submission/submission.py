"""The zips that servers take, by suite."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tasks.submission.answer_file import AnswerFile
from tasks.submission.glue import GLUE_FILES
from tasks.submission.suites import SUPERGLUE_FILES

__all__ = ["SUBMISSIONS", "Submission", "bare_stem"]


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A zip of answer files. `aliases` are what others call them, as `bare_stem` gives it.

    `flat` says that they must not lie in a folder.
    """

    suite: str
    files: tuple[AnswerFile, ...]
    aliases: Mapping[str, str]
    flat: bool

    def file_for(self, name: str) -> AnswerFile | None:
        """The file that a member of a zip must be, by its name in any case and extension."""
        stems = {bare_stem(file.name): file for file in self.files}
        stem = bare_stem(name)
        return stems.get(self.aliases.get(stem, stem))


def bare_stem(name: str) -> str:
    """A file's name without extension, case and separators: "MNLI-mm.tsv" is "mnlimm"."""
    stem = name.rpartition(".")[0] or name
    letters = "".join(c for c in stem.casefold() if c.isalnum())
    return letters.removeprefix("predictresults")


GLUE = Submission(
    suite="glue",
    files=GLUE_FILES,
    aliases={
        "sst": "sst2",
        "sts": "stsb",
        "mnli": "mnlim",
        "mnlimatched": "mnlim",
        "mnlimismatched": "mnlimm",
        "diagnostic": "ax",
    },
    flat=True,
)

SUPERGLUE = Submission(suite="superglue", files=SUPERGLUE_FILES, aliases={}, flat=False)

SUBMISSIONS: Mapping[str, Submission] = MappingProxyType({s.suite: s for s in (GLUE, SUPERGLUE)})
"""By suite."""
