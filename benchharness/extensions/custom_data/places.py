"""Find the files of each split in a user's file, folder or archive."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from benchharness.errors import DataError
from benchharness.extensions.custom_data.inception import is_document
from benchharness.tasks.sources.archives import open_archive
from benchharness.tasks.sources.files import ARCHIVES, held
from benchharness.tasks.sources.formats import content_of
from benchharness.tasks.sources.source import Place

SPLIT_NAMES = {
    "train": {"train", "training"},
    "dev": {"dev", "devel", "development", "valid", "val", "validation", "testa"},
    "test": {"test", "testing", "testb"},
}
"""Words that stand for a split, keyed by split."""

ENDINGS = {
    **dict.fromkeys((".csv", ".tsv", ".tab"), "table"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "json"),
    **dict.fromkeys((".conll", ".iob", ".iob2", ".bio", ".conllu"), "conll"),
    ".parquet": "parquet",
    **dict.fromkeys((".arrow", ".feather"), "arrow"),
    ".xlsx": "workbook",
    ".xml": "xml",
    **dict.fromkeys((".txt", ".ft"), "text"),
}
"""Format of a file, keyed by the ending of the file's name."""


def split_of(name: str) -> str:
    """Return the split that a name contains as a word, such as "train" for "train-1.csv".

    Returns "" if the name contains no split or several.
    """
    # "train-00000-of-00002.parquet" is a file of train. "train_test.csv" names two splits, so its
    # split is unknown.
    words = set(re.findall("[a-z]+", name.lower()))
    found = [split for split, names in SPLIT_NAMES.items() if words & names]
    return found[0] if len(found) == 1 else ""


def split_files(path: Path) -> dict[str, list[Place]]:
    """Find the files of each split in a folder or an archive, keyed by split.

    A single file has the key "all". So have the only file of rows in a folder and the numbered
    parts of one file, if their names contain no split. A folder that is read as a whole, such as
    one with a subfolder per class, also has this key; the folder itself is then returned instead of
    its files. If a split has several files, they are parts of one file, whose names differ only in
    digits, or a file of texts and a file of their labels.

    Args:
        path: A file, a folder or an archive.

    Raises:
        DataError: There is no train file, or a split has files that do not belong together.
    """
    if path.is_file() and not path.name.lower().endswith(ARCHIVES):
        return {"all": [path]}
    place = _archive(path, stamp_of(path)) if path.is_file() else path
    if _is_classes(place) or class_files(place) or _is_table(place):
        return {"all": [place]}
    folders = [child for child in children(place) if child.is_dir()]
    rows = _files_of_rows(place)
    # Clones of the hub's repositories have their files in "data".
    if not rows and [folder.name for folder in folders] == ["data"]:
        rows, folders = _files_of_rows(folders[0]), []
    found = _by_split([f for f in folders if _is_classes(f) or _is_table(f)])
    found = found if "train" in found else _by_split(rows)
    # There may be a folder for each split, as `DatasetDict.save_to_disk` writes them.
    found = found if "train" in found or rows else _in_folders(folders)
    _check_parts(path, found)
    if "train" in found:
        return {split: found[split] for split in SPLIT_NAMES if split in found}
    is_cut = all(re.search(r"-\d{5}-of-\d{5}\.", file.name) for file in rows)
    if not found and rows and (is_cut or len(rows) == 1):
        return {"all": [*rows]}
    names = ", ".join(file.name for file in rows[:4]) or "no file of rows"
    raise DataError(
        f"{path} has no train file (it has {names}): name the files train.csv, dev.csv and "
        "test.csv, or use a single file, or one folder of .txt files per class."
    )


def _check_parts(path: Path, found: Mapping[str, Sequence[Place]]) -> None:
    """Raise DataError if a split's files are neither parts of one file nor texts and labels."""
    # "train-00000-of-00002.parquet" and "train-00001-of-00002.parquet" are parts of one file.
    for split, files in found.items():
        is_one = len({re.sub(r"\d", "", file.name) for file in files}) == 1
        if not is_one and with_labels_apart(files) is None:
            both = " and ".join(file.name for file in files[:2])
            raise DataError(f"{path} has {both}, which are both {split} files: remove one of them.")


_LABELS = frozenset(("label", "labels", "solution", "solutions", "gold", "answers", "targets"))


def with_labels_apart(files: Sequence[Place]) -> tuple[Place, Place] | None:
    """Return the file of texts and the file of their labels, if two files are such a pair.

    An example is test.csv and test_labels.csv: the names differ only in a word for labels. In all
    other cases the result is None.
    """
    words = [re.findall(r"[^\W_]+", file.name.lower().partition(".")[0]) for file in files]
    if len(files) != 2 or words[0] == words[1]:
        return None
    (texts, first), (labels, second) = sorted(
        zip(files, words, strict=True), key=lambda f: len(f[1])
    )
    is_one = [word for word in second if word not in _LABELS] == first
    return (texts, labels) if is_one else None


def _files_of_rows(folder: Place) -> list[Place]:
    found = [child for child in children(folder) if child.is_file() and kind_of(child)]
    rows = [child for child in found if child.name not in _ABOUT]
    # XML files mostly describe other files (UD's stats.xml), so they are read only if the folder
    # has no files in other formats.
    return [child for child in rows if kind_of(child) != "xml"] or rows


def _in_folders(folders: Sequence[Place]) -> dict[str, list[Place]]:
    """Return the files of rows in the first folder of each split, keyed by split."""
    named = _by_split(folders)
    return {split: rows for split, (first, *_) in named.items() if (rows := _files_of_rows(first))}


_ABOUT = ("dataset_dict.json", "dataset_info.json", "state.json")
"""Files of metadata that `Dataset.save_to_disk` writes next to the rows."""


def _by_split(places: Sequence[Place]) -> dict[str, list[Place]]:
    found: dict[str, list[Place]] = {}
    for place in places:
        if split := split_of(place.name):
            found.setdefault(split, []).append(place)
    return found


@lru_cache(maxsize=2)
def _archive(path: Path, _stamp: tuple[int, int]) -> Place:
    """Open an archive; return its outermost folder that holds more than a single folder."""
    try:
        place: Place = open_archive(path, path.name)
    except DataError as error:
        raise DataError(str(error).replace("get the official archive", "pack it again")) from error
    while len(found := children(place)) == 1 and found[0].is_dir():
        place = found[0]
    return place


def children(folder: Place) -> list[Place]:
    """Return the visible files and folders in a folder, sorted by name.

    Raises DataError if the folder does not exist or cannot be read.
    """
    if not folder.is_dir():
        raise DataError(
            f"the data file {str(folder)!r} does not exist: use an existing file or folder."
        )
    return sorted(held(folder), key=lambda child: child.name)


def _is_classes(folder: Place) -> bool:
    """Return whether a folder has two or more folders of texts, none of them named as a split."""
    classes = [p for p in children(folder) if p.is_dir()] if folder.is_dir() else []
    return len(classes) > 1 and all(
        not split_of(place.name) and any(map(is_text, place.iterdir())) for place in classes
    )


_POLAR = frozenset(
    ("pos", "neg", "neutral", "positive", "negative", "ham", "spam", "fake", "true", "real")
)
"""Names of common classes, which may be part of a file's name."""


def class_files(folder: Place) -> dict[str, Place]:
    """Return the file of each class, keyed by class, if a folder has one file per class.

    Examples are rt-polarity.pos and rt-polarity.neg, pos.txt and neg.txt, or Fake.csv and True.csv.
    Only well-known classes such as these count, because other files may differ in something else,
    as train.en and train.de do in the language. In all other cases the result is empty.
    """
    if not folder.is_dir():
        return {}
    files = [c for c in children(folder) if c.is_file() and "readme" not in c.name.lower()]
    parts = [file.name.rpartition(".")[::2] for file in files]
    for named, rest, endings in ((0, 1, {"", "txt", "csv", "tsv"}), (1, 0, None)):
        classes = {part[named]: file for part, file in zip(parts, files, strict=True)}
        others = {part[rest] for part in parts}
        is_one = len(others) == 1 and (endings is None or others <= endings)
        if is_one and len(classes) == len(files) > 1 and _POLAR.issuperset(map(str.lower, classes)):
            return classes
    return {}


def is_text(place: Place) -> bool:
    """Return whether a file in the folder of a class is a text: its name is *.txt or a number."""
    return place.name.endswith(".txt") or place.name.isdigit()


def is_brat(folder: Place) -> bool:
    """Return whether a folder contains a text file with an annotation file of brat next to it.

    For example, a.txt is a text file, and a.ann its annotation file.
    """
    names = {child.name for child in children(folder)} if folder.is_dir() else set()
    return any(n.endswith(".ann") and f"{n.removesuffix('.ann')}.txt" in names for n in names)


def scored_files(folder: Place) -> dict[Place, Place]:
    """Find the files in a folder that contain pairs of texts, and the files with their scores.

    For example, STS.gs.news.txt has the scores of STS.input.news.txt.

    Args:
        folder: Folder to search.

    Returns:
        The file with the scores, keyed by the file with the pairs. Empty if a file with pairs has
        no scores, or if any file in the folder is named after a split.
    """
    files = {c.name: c for c in children(folder) if c.is_file()} if folder.is_dir() else {}
    pairs = {name: name.replace(".input.", ".gs.") for name in files if ".input." in name}
    is_whole = all(scores in files for scores in pairs.values()) and not any(map(split_of, files))
    return {files[name]: files[scores] for name, scores in pairs.items()} if is_whole else {}


def _is_table(folder: Place) -> bool:
    """Return whether the files of a folder form one table, as those of brat and INCEpTION do."""
    return is_brat(folder) or bool(scored_files(folder)) or bool(document_files(folder))


def document_files(folder: Place) -> dict[str, Place]:
    """Find the documents that INCEpTION has exported into a folder, as one file per document.

    Args:
        folder: The folder. The files may be in folders of their own, as in the export of a project.

    Returns:
        The files, keyed by their path in the folder. Empty if there are other files, fewer than two
        files, or files named after splits.

    Raises:
        DataError: A document has the annotations of several users.
    """
    inside = children(folder) if folder.is_dir() else []
    files = {child.name: child for child in inside if child.is_file()}
    for place in inside if not files else ():
        found = {f"{place.name}/{each.name}": each for each in children(place) if each.is_file()}
        if len(found) > 1 and all(map(_is_document, found.values())):
            raise DataError(
                f"{folder.name}/{place.name} has the annotations of several users "
                f"({', '.join(each.name for each in found.values())}): keep one file per document, "
                "such as that of the curator."
            )
        files |= found
    if len(files) < 2 or any(map(split_of, files)) or not all(map(_is_document, files.values())):
        return {}
    return files


def _is_document(path: Place) -> bool:
    if ending_of(path) not in (".tsv", ".json"):
        return False
    if not isinstance(path, Path):
        head = content_of(path)[:_HEAD]
    else:
        try:
            with path.open("rb") as file:
                head = file.read(_HEAD)
        except OSError:  # reported when the file is read
            return False
    return is_document(head.decode("utf-8-sig", "replace"))


_HEAD = 1000
"""Number of bytes at the beginning of a file that show whether it is a document of INCEpTION."""


def ending_of(path: Place) -> str:
    """Return the ending of a file's name in lower case, such as ".csv", ignoring a final ".gz"."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def kind_of(path: Place) -> str:
    """Return the format of a file according to its ending, such as "table" for .csv.

    A name that ends in the name of a split, such as "eng.train", has the format "text". Returns ""
    if the ending is unknown.
    """
    ending = ending_of(path)
    # CoNLL-2003's "eng.train" and "eng.testa" end in a split's name; their text shows the layout.
    is_named = ending.lstrip(".") in {name for names in SPLIT_NAMES.values() for name in names}
    return ENDINGS.get(ending, "text" if is_named else "")


def stamp_of(path: Place) -> tuple[int, int]:
    """Return a file's size in bytes and modification time in ns, which show whether it has changed.

    For a folder these are the total size and the latest time of its contents. Members of an archive
    always have (1, 0): if the archive changes, it is opened again and has new members. Raises
    DataError if a path cannot be read.
    """
    if not isinstance(path, Path):
        return 1, 0
    try:
        found = [each.stat() for each in (path.rglob("*") if path.is_dir() else [path])]
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    return sum(each.st_size for each in found), max(each.st_mtime_ns for each in found)
