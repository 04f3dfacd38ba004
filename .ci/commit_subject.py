"""Check the subject of a commit message: `python .ci/commit_subject.py FILE`, run by pre-commit.

Exits with 1 and one sentence if the subject has another form than `.gitmessage` describes. Merges,
reverts and the fixups of an interactive rebase keep the subjects that git gives them.
"""

import re
import sys
from pathlib import Path

LONGEST = 71
"""Characters of a subject, so that `git log --oneline` fits into 80 columns."""

BY_GIT = ("Merge ", "Revert ", "Reapply ", "fixup! ", "squash! ", "amend! ")
"""Beginnings of the subjects that git writes itself."""

NO_VERB = re.compile(r"(?:Add|Chang|Fix|Mak|Mov|Nam|Remov|Renam|Us|Updat|Writ)(?:e?s|e?d|ing)\b")
"""Common verbs in another form than the imperative: "Added", "Adds", "Adding"."""


def fault(message: str) -> str | None:
    """Return what is wrong with the subject of a message, or None if nothing is."""
    lines = message.partition("\n# ------------------------ >8 ")[0].splitlines()
    subject, *rest = "\n".join(line for line in lines if line[:1] != "#").strip().split("\n")
    if subject.startswith(BY_GIT):
        return None
    length, verb = len(subject), NO_VERB.match(subject)
    wrong = {
        "is empty: write what the commit changes": not subject,
        f"has {length} characters: at most {LONGEST}, the reasons go to the body": length > LONGEST,
        "does not begin with a capital letter": not subject[:1].isupper(),
        "ends with a full stop: leave it out": subject.endswith("."),
        "begins with no imperative: write 'Add a test', not 'Added' or 'Adds'": verb,
        "is not followed by an empty line": "".join(rest[:1]).strip(),
    }
    return next((words for words, is_wrong in wrong.items() if is_wrong), None)


if __name__ == "__main__":
    found = fault(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.exit(found and f"the subject of the commit {found}.")
