"""Check a release before it is uploaded, and print its notes: `python .ci/release.py v0.1.0 dist`.

The notes are the release's section of CHANGELOG.md. Exits with 1 and one sentence per fault if the
packages in `dist` are not those of the tag, or if a file that every release needs is missing. A
release candidate (v0.1.0rc1) has the section of its release and needs no date and no kept files.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = Path("tests") / "leaderboard" / "kept"
FILES = "https://github.com/benchharness/benchharness/blob/"


def faults(tag: str, dist: Path, root: Path = ROOT) -> Iterator[str]:
    """Yield what is wrong with the release of a tag, one sentence each."""
    if not (found := re.fullmatch(r"v(\d+(?:\.\d+){2})(rc\d+)?", tag)):
        yield f"{tag!r} is not the tag of a release: expected a tag such as v0.1.0 or v0.1.0rc1."
        return
    release, version = found[1], tag[1:]
    expected = {f"benchharness-{version}.tar.gz", f"benchharness-{version}-py3-none-any.whl"}
    if (built := {path.name for path in dist.iterdir()}) != expected:
        yield (
            f"{dist} has {', '.join(sorted(built)) or 'no files'}: expected "
            f"{' and '.join(sorted(expected))}, which a build of the unchanged tag makes."
        )
    heading = _heading(release, root)
    if heading is None:
        yield f"CHANGELOG.md has no section for {release}: add `## {release} (YEAR-MONTH-DAY)`."
    elif found[2] is None and not re.search(r"\(\d{4}-\d{2}-\d{2}\)$", heading[0]):
        yield f"the section {heading[0]!r} of CHANGELOG.md has no date: write the day of release."
    for ending in ("sqlite.gz", "json.gz", "jsonl.gz"):
        if found[2] is None and not (root / KEPT / f"{release}.{ending}").is_file():
            yield (
                f"{KEPT / release}.{ending} is missing: `python -m "
                "tests.leaderboard.test_kept_store` writes it (RELEASING.md)."
            )


def notes(tag: str, root: Path = ROOT) -> str:
    """Return the section of a tag's release in CHANGELOG.md, with links to the files of the tag."""
    heading = _heading(re.sub(r"^v|rc\d+$", "", tag), root)
    assert heading is not None, "faults has found it"
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")[heading.end() :]
    section = re.split(r"(?m)^## ", text, maxsplit=1)[0].strip()
    return re.sub(r"\]\((?!https?:|#)", f"]({FILES}{tag}/", section) + "\n"


def _heading(release: str, root: Path) -> re.Match[str] | None:
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    return re.search(rf"(?m)^## {re.escape(release)} .*$", text)


def main(tag: str, dist: str) -> int:
    """Print the faults of a release, or its notes if there is none; return the exit code."""
    if found := list(faults(tag, Path(dist))):
        sys.stderr.write("".join(f"{each}\n" for each in found))
        return 1
    sys.stdout.write(notes(tag))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
