"""Find the mapping of a table's columns to roles, such as text and label.

A table is accepted only if exactly one mapping fits.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from operator import contains
from shlex import quote
from typing import Any
from unicodedata import normalize

from benchharness.errors import DataError
from benchharness.extensions.custom_data.columns import (
    CLASSES,
    DATE,
    FEW,
    FEW_ODD,
    LONG_NAME,
    MISSING,
    MOST_CLASSES,
    MOST_SHOWN,
    NAME_WORDS,
    NAMED,
    PAIRS,
    RARE_SEPARATORS,
    SEEN,
    SEPARATORS,
    SHORT_WORDS,
    Column,
    Table,
    key_of,
)
from benchharness.extensions.custom_data.places import SPLIT_NAMES, split_of
from benchharness.extensions.custom_data.roles import (
    SHAPES,
    SPLIT,
    ColumnMapping,
    Kind,
    first_number,
    listed,
    mapping_of,
    place_of,
)
from benchharness.extensions.custom_data.tags import is_entity_tag, spelling_of
from benchharness.extensions.custom_data.verdicts import (
    VERDICT,
    accepted,
    beside_responses,
    verdict_column,
)
from benchharness.extensions.custom_data.words import CONLLU
from benchharness.tasks.sources.formats import fields_of


def is_headless(table: Table) -> bool:
    """Return whether line 1 of a table is certainly a row and not the names of the columns."""
    # The name of a column may be a whole question (Google Forms), but it is then not also a value
    # of the column.
    if not (table.has_header and any(name in values for name, values in table.columns.items())):
        return False
    columns = [Column(name, values) for name, values in table.columns.items()]
    # A cell "toxic" above the values "toxic" and "clean" may be the name of the column, but prose
    # above prose is not.
    above = [c.name for c in columns if c.is_text and c.mean_words > SHORT_WORDS]
    is_prose = bool(above) and all(len(name.split()) > NAME_WORDS for name in above)
    return is_prose and is_row_above(table, columns)


def count_readings(table: Table) -> int:
    """Return the number of ways to map the columns of a table to the roles of a task.

    Returns 0 if the table has an error, such as a first line that is not a header.
    """
    try:
        return len(_mappings(table)[0])
    except DataError:
        return 0


def find_mapping(table: Table) -> ColumnMapping:
    """Return the only mapping of a table's columns to the roles of a task.

    Raises DataError if no mapping fits, or if several do; the error lists them.
    """
    found, columns = _mappings(table)
    if len(found) == 1:
        return found[0]
    if found:
        ways = " or ".join(
            f"{SHAPES[r.kind].said} (--columns {quote(r.words)})" for r in found[:MOST_SHOWN]
        )
        more = f", and {len(found) - MOST_SHOWN} others" if len(found) > MOST_SHOWN else ""
        raise DataError(f"{table.name} fits {len(found)} tasks: {ways}{more}; choose one.")
    names = ", ".join(map(repr, table.columns))
    if not any((c.is_text and not c.is_id) or c.is_list for c in columns):
        raise DataError(
            f"{table.name} has no column of texts (it has {names}): pass --columns "
            "text=...,label=... to choose the columns."
        )
    raise DataError(
        f"no column of {table.name} can be a label (it has {names}): expected one with few "
        "different values or with numbers; pass --columns text=...,label=... to choose one."
    )


def _mappings(table: Table) -> tuple[list[ColumnMapping], list[Column]]:
    """Return all mappings that fit a table, and the columns that may have roles."""
    every = [Column(name, values) for name, values in table.columns.items()]
    check_header(table, every)
    split = split_column(table)
    verdict, is_sure = verdict_column(table)
    if is_sure:
        every = [
            Column(n, values) for n, values in accepted(table, verdict, "label").columns.items()
        ]
    # A column without any value fits no role, and a column that repeats another one (Argilla's
    # "text" and "inputs.text") is not needed.
    skipped = {
        split,
        *(verdict if is_sure else "",),
        *table.made,
        *beside_responses(table, verdict),
    }
    columns = [c for c in _different(every) if c.known and c.name not in skipped]
    found = list(_made(table, columns)) if table.made else []
    if not found:
        found = next((list(r) for find in FINDERS if (r := list(find(columns)))), [])
        if found and found[0].kind == "tags":
            found += _named_labels(columns, found[0])
    # Columns of ticked boxes are the labels of a text, even if other columns may be labels too.
    if table.ticked:
        found = [r for r in found if {*r.columns.get("labels", ())} == {*table.ticked}] or found
    _check_odd(table, columns, found)
    found = [_beside(r, split, verdict if is_sure else "") for r in found]
    if verdict and not is_sure:
        others = [r for r in found if verdict not in r.names]
        found += [_beside(r, "", verdict) for r in others]
    return found, columns


def _different(columns: Sequence[Column]) -> list[Column]:
    """Drop text columns that repeat an earlier column."""
    texts = [column for column in columns if column.is_text]
    same = {
        column.name
        for place, column in enumerate(texts)
        if any(list(column.values) == list(other.values) for other in texts[:place])
    }
    return [column for column in columns if column.name not in same]


def _beside(mapping: ColumnMapping, split: str, verdict: str) -> ColumnMapping:
    """Add columns for the split and the verdict to a mapping."""
    more = {role: (name,) for role, name in ((SPLIT, split), (VERDICT, verdict)) if name}
    return replace(mapping, columns={**mapping.columns, **more})


def _made(table: Table, columns: Sequence[Column]) -> Iterator[ColumnMapping]:
    """Yield the mapping to words and tags made from spans, and mappings to class columns."""
    words, tags, _ = table.made
    mapping = ColumnMapping(kind="tags", columns={"words": (words,), "tags": (tags,)})
    yield mapping
    yield from _named_labels(columns, mapping)


def _named_labels(columns: Sequence[Column], tags: ColumnMapping) -> Iterator[ColumnMapping]:
    """Yield mappings to a column that is named as a class, for texts that also have tags."""
    rest = [column for column in columns if column.name not in tags.columns["tags"]]
    for mapping in _labels(rest):
        (target,) = mapping.columns.get("label", ("",))[:1]
        column = next((c for c in rest if c.name == target), None)
        if column is not None and column.words & CLASSES - NAMED["tags"] | (
            {column.key} & NAMED["label"]
        ):
            yield mapping


def _check_odd(table: Table, columns: Sequence[Column], found: Sequence[ColumnMapping]) -> None:
    """Raise DataError for a non-number in a nearly numeric column that may be the target."""
    targets = {n for r in found for role in ("label", "labels") for n in r.columns.get(role, ())}
    is_open = not any(c.key in NAMED["label"] for c in columns if c.name in targets)
    for column in columns if all(r.kind in ("class", "labels", "number") for r in found) else ():
        odd = column.odd_number
        is_named = bool(column.words & (CLASSES | NAMED["number"]))
        if (
            odd is None
            or column.is_id
            or column.name in targets
            or not (not found or (is_named and is_open))
        ):
            continue
        row, value = odd
        text = next((c.name for c in columns if c.is_text), "COLUMN")
        raise DataError(
            f"{table.place(row)} has {value!r} in the column {column.name!r}, in which nearly "
            "all other values are numbers: empty the cell, or pass --columns "
            f"{quote(f'text={text},label={column.name}')} if the values are classes."
        )


def check_header(table: Table, columns: Sequence[Column]) -> None:
    """Raise DataError if line 1 of a table is a row and not the names of its columns."""
    if is_row_above(table, columns):
        raise DataError(
            f"line 1 of {table.name} is a row instead of column names: pass --no-header, which "
            "numbers the columns from 1, or insert a line with their names."
        )


def is_row_above(table: Table, columns: Sequence[Column]) -> bool:
    """Return whether line 1 is a row of the table and not column names, judged by the values below.

    Args:
        table: Table whose line 1 was read as column names.
        columns: The columns of the table.
    """
    # A name above dates or numbers shows that line 1 has names, however long they are. Questions
    # (Google Forms) are names too.
    is_named = any(
        (column.numbers is not None or column.is_date)
        and not DATE.fullmatch(column.name)
        and Column("", [column.name]).numbers is None
        for column in columns
        if column.known
    )
    for column in columns if table.has_header else ():
        # Line 1 is a row rather than column names if one of its cells is (1) also a value further
        # down in a column with few different values, such as "pos", (2) a number above numbers, or
        # (3) a whole sentence above sentences.
        is_value = column.name in column.distinct and len(column.distinct) < len(column.known) / 2
        is_number = re.fullmatch(r"-?\d+(\.\d+)?", column.name) and column.numbers is not None
        is_long = len(column.name.split()) > LONG_NAME and not column.name.rstrip().endswith("?")
        if is_value or is_number or (column.is_text and is_long and not is_named):
            return True
    return False


def split_column(table: Table) -> str:
    """Return the name of the column with the split of each row; "" if there is none.

    Raises DataError if the column has values that name no split, two values for the same split, or
    no value for train.
    """
    for name, values in table.columns.items():
        found = dict.fromkeys("" if value is None else str(value) for value in values)
        # Vertex AI calls this column "aiplatform.googleapis.com/ml_use".
        key = key_of(name)
        if (key not in NAMED["split"] and not key.endswith("mluse")) or len(found) < 2:
            continue
        splits = {value: split_of(value) for value in found}
        # A column "set" or "fold" is not a column of splits if its values, such as 0 to 4, are not
        # names of splits.
        if not any(splits.values()) and key_of(name) not in ("split", "splits"):
            continue
        odd = [value for value, split in splits.items() if not split]
        # Two words for one split, such as "val" and "dev", are ambiguous.
        if odd or len(set(splits.values())) < len(splits) or "train" not in splits.values():
            raise DataError(
                f"{table.name} has {', '.join(map(repr, odd or splits))} in the column {name!r}: "
                "expected one value for train, and at most one each for "
                f"{' and '.join(list(SPLIT_NAMES)[1:])}; rename the values, or remove the column."
            )
        return name
    return ""


def _mapping(kind: Kind, **roles: Column | Sequence[Column] | None) -> ColumnMapping:
    """Build a mapping of this kind; roles without a column are skipped."""
    found = {r: (c,) if isinstance(c, Column) else c for r, c in roles.items() if c}
    return ColumnMapping(
        kind=kind, columns={role: tuple(c.name for c in each) for role, each in found.items()}
    )


def _called(columns: Sequence[Column], role: str) -> Column | None:
    """Return the first column with a usual name for a role; None if there is none."""
    return _first(columns, NAMED[role])


def _first(columns: Sequence[Column], keys: Collection[str]) -> Column | None:
    return next((column for column in columns if column.key in keys), None)


def _spans(columns: Sequence[Column]) -> Iterator[ColumnMapping]:
    texts = [column for column in columns if all(isinstance(v, str) for v in column.known)]
    context, question = _called(texts, "context"), _called(texts, "question")
    answer = _called(columns, "answer")
    if _first(columns, NAMED["options"] - NAMED["answer"]) or not question:
        return
    if not (context and answer):
        placed = _placed(texts, columns, question)
        if placed is not None:
            context, answer, place = placed
            yield _mapping("spans", context=context, question=question, answer=answer, start=place)
        return
    rows = zip(context.values, answer.values, strict=True)
    pairs = [(c, a if isinstance(a, list) else [a]) for c, a in rows if c and a]
    # If answers are spans, they occur in their contexts. A few answers may be spelled differently.
    inside = sum(any(isinstance(t, str) and t in c for t in found) for c, found in pairs)
    if answer.numbers is not None or inside < 0.9 * max(1, len(pairs)):
        return
    start = _called(columns, "start")
    yield _mapping("spans", context=context, question=question, answer=answer, start=start)


def _placed(
    texts: Sequence[Column], columns: Sequence[Column], question: Column
) -> tuple[Column, Column, Column] | None:
    """Find columns of contexts, answers and answer positions by their content, not their names."""
    places = [c for c in columns if c.is_whole or (c.is_list and set(map(len, c.known)) == {2})]
    whole = [c for c in texts if c is not question and c.mean_words > SHORT_WORDS]
    for context, answer, start in product(whole, texts, places):
        if answer in (context, question) or min(len(answer.distinct), len(start.distinct)) < 2:
            continue
        rows = [*zip(context.values, answer.values, start.values, strict=True)]
        if all(_nearly_all(_is_at(*row) for row in some if row[1]) for some in (rows[:SEEN], rows)):
            return context, answer, start
    return None


def _is_at(context: Any, answer: str, place: Any) -> bool:
    """Return whether a context has an answer at a position: its start, or its start and end."""
    start, *ends = map(str, place if isinstance(place, list) else [place])
    if not re.fullmatch("[0-9]{1,9}", start) or not _text(context).startswith(answer, int(start)):
        return False
    last = int(start) + len(answer)
    return not ends or ends[0] in (str(last), str(last - 1))


def _tag_lists(columns: Sequence[Column]) -> Iterator[ColumnMapping]:
    lists = [column for column in columns if column.is_list]
    if all(re.fullmatch(r"\d+", column.name) for column in lists) and len(lists) == len(columns):
        if len(lists) > 1:
            yield from _conll(lists)
        return
    # Words are a list, or a text with as many words as there are tags.
    texts = [c for c in columns if c.mean_words > 1]
    # Objects with a word and its tag were split into the columns "tokens.text" and "tokens.ner".
    inner = next(
        (c for c in lists if re.fullmatch(r"(tokens|words)\.(text|word|form)", c.name)), None
    )
    for words in filter(None, (_called(lists, "words"), inner, *texts)):
        lengths = [len(_parts(value)) for value in words.values]
        beside = [c for c in columns if c is not words and (c.is_list or c.mean_words > 1)]
        fitting = [c for c in beside if _fits(lengths, c)]
        entities = [c for c in fitting if _are_spans(c)]
        # A column may contain the tags if its values are tags of spans. Another list may too,
        # unless its name is one for words. If the words are a text and not a list, its name must be
        # one for tags.
        fitting = [c for c in fitting if c in entities or (c.is_list and _may_be_tags(words, c))]
        # Without tags of spans, columns with a usual name for tags are preferred.
        chosen = entities or [c for c in fitting if c.key in NAMED["tags"]] or fitting
        for tags in chosen:
            yield _mapping("tags", words=words, tags=tags)
        if chosen:
            return


def _may_be_tags(words: Column, column: Column) -> bool:
    return column.key not in NAMED["words"] and (words.is_list or column.key in NAMED["tags"])


def _conll(columns: Sequence[Column]) -> Iterator[ColumnMapping]:
    """Yield the possible mappings of the columns of a CoNLL file.

    Usually the word is in the first column and its tag in the last. If the first column numbers the
    words, the word is in the second column; its tag is then in the fourth column (CoNLL-U), or in
    any later column that has tags of spans or few different values.
    """
    first, *others = columns
    is_numbered = {value[0] for value in first.known} == {"1"}
    if is_numbered and len(columns) == CONLLU:
        yield _mapping("tags", words=others[0], tags=others[2])
    elif is_numbered and len(others) > 1:
        word, *tags = others
        few = [c for c in tags if 1 < len({str(each) for v in c.known for each in v}) < FEW_TAGS]
        for tag in [c for c in tags if _are_spans(c)] or few or tags[-1:]:
            yield _mapping("tags", words=word, tags=tag)
    else:
        yield _mapping("tags", words=first, tags=others[-1])


FEW_TAGS = 100
"""Number of different values from which a column of a CoNLL file is assumed to contain lemmas or
syntactic heads instead of tags.
"""


def _parts(value: Any) -> Sequence[Any]:
    return fields_of(value) if isinstance(value, str) else value or ()


def _fits(lengths: Sequence[int], column: Column) -> bool:
    """Return whether a column has a value per word, apart from empty rows and a few others."""
    found = [len(_parts(value)) for value in column.values]
    same = sum(a == b for a, b in zip(found, lengths, strict=True))
    none = sum(not b for b in found)
    return same > none and same + none >= (1 - FEW_ODD) * len(found)


def _are_spans(column: Column) -> bool:
    """Return whether a column has tags that begin or continue spans."""
    tags = Counter(str(each) for value in column.known for each in _parts(value))
    return any(is_entity_tag(tag) and tag != "O" for tag in tags) and bool(spelling_of(tags).kinds)


def _tag_rows(columns: Sequence[Column]) -> Iterator[ColumnMapping]:
    """Yield mappings of a table with a row per word and a column that distinguishes sentences.

    Raises DataError if the rows have tags of entities and there is no such column.
    """
    word = _called(columns, "words")
    if word is None or word.is_list or any(" " in str(value) for value in word.known):
        return
    rest = [column for column in columns if column is not word]
    tags = [c for c in rest if c.key in NAMED["tags"] and len(c.distinct) <= MOST_CLASSES]
    entities = [c for c in tags if spelling_of(Counter(map(str, c.known))).kinds]
    # Columns that may number the sentences, such as "Sentence #", "sent_id", "doc", "s" and
    # "utterance".
    numbers = [c for c in rest if c not in tags and re.match("sent|doc|s$|utt", c.key)]
    sentence = [c for c in numbers if _tells_apart(c)]
    if entities and not sentence:
        raise DataError(
            f"each row has a word ({word.name!r}) and its tag ({entities[0].name!r}), but no "
            "column shows where a sentence ends: pass --columns sentence=...,words=...,tags=... to "
            "choose a column with the number of the sentence."
        )
    for tag in entities or tags:
        for number in sentence[:1]:
            yield _mapping("tags", sentence=number, words=word, tags=tag)


def _tells_apart(column: Column) -> bool:
    """Return whether a column has a value per sentence, at every word or only at the first."""
    # Some columns have a value only at the first word of a sentence: "Sentence: 1", "", "",
    # "Sentence: 2".
    on_first = column.values[0] in column.known and len(column.known) == len(column.distinct)
    if len(column.known) < len(column.values) and on_first:
        return len(column.known) <= len(column.values) / 2
    return not column.is_text and len(column.distinct) <= len(column.values) / 2


def _option_lists(columns: Sequence[Column]) -> Iterator[ColumnMapping]:
    lists = [column for column in columns if column.is_list]
    inner = (column for column in lists if column.name.endswith((".choices.text", "options.text")))
    options = _called(lists, "options") or next(inner, None)
    rest = [column for column in columns if column is not options]
    # Prodigy's column "accept" is a list with one key. If all rows have the same options, these are
    # classes and not the options of a question.
    answer = _called(rest, "right") or _first(rest, {"accept"})
    if options is None or answer is None or len(options.distinct) < 2:
        return
    rights = [v[0] if isinstance(v, list) and len(v) == 1 else v for v in answer.values]
    if any(isinstance(right, list) for right in rights):
        return
    pairs = zip(options.values, rights, strict=True)
    both = [(right, given) for given, right in pairs if given and right not in (None, "")]
    # ARC names the options in another column: choices.text ["red", "blue"], choices.label ["A",
    # "B"] and answerKey "B".
    start = options.name.removesuffix(".text")
    keys = _first(columns, {key_of(f"{start}.label"), key_of(f"{start}.id")})
    if keys is not None and keys.is_list:
        named = zip(options.values, keys.values, rights, strict=True)
        places = [(place_of(r, g), place_of(r, g, k)) for g, k, r in named if g and k and r]
        # If the options have the keys "1" to "4", the answer "1" is the first option; if options
        # are counted from 0, it is the second. If both readings differ, the keys are used, provided
        # that nearly all answers are keys.
        if any(one != other for one, other in places):
            if _nearly_all(other is not None for _, other in places):
                yield from _choice(columns, (options,), answer, keys)
            return
    first = first_number(both)
    if _nearly_all(place_of(right, given, first=first) is not None for right, given in both):
        yield from _choice(columns, (options,), answer)


def _nearly_all(found: Iterable[bool]) -> bool:
    """Return whether nearly all values are true; exceptions are reported when rows are read."""
    every = list(found)
    return sum(every) >= (1 - FEW_ODD) * len(every)


# Pattern of the normalized name of a column with an option: "optiona" (from "option_a" or "Option
# A"), "ending0", "choice1", or "b".
WIDE = re.compile(r"(option|choice|ending|answer|opt|alternative|candidate)?([a-h]|\d)")


def _option_columns(columns: Sequence[Column]) -> Iterator[ColumnMapping]:
    if columns and all(column.name.isdigit() for column in columns):
        # The columns have no names. They are a choice if there are at least four: a question, two
        # or more options and, at the end, the letter of the answer.
        question, *between, last = columns if len(columns) > 3 else (columns[0], columns[-1])
        rows = zip(last.values, *(column.values for column in between), strict=True)
        if len(between) > 1 and _nearly_all(
            bool(re.fullmatch("[A-Ha-h]", str(right))) and place_of(right, given) is not None
            for right, *given in rows
        ):
            yield from _choice([question, *between, last], between, last)
        return
    named: dict[str, list[Column]] = defaultdict(list)
    for column in columns:
        if found := WIDE.fullmatch(column.head):
            named[found[1] or ""].append(column)
    for options in named.values():
        rest = [column for column in columns if column not in options]
        answer = _called(rest, "right") or next((c for c in rest if c.head in NAMED["right"]), None)
        if len(options) < 2 or answer is None or answer.is_list or answer.is_text:
            continue
        if _are_answers(answer, options):
            yield from _choice(columns, options, answer)


def _are_answers(answer: Column, options: Sequence[Column]) -> bool:
    """Return whether answers refer to options by their numbers, letters or texts."""
    rows = zip(answer.values, *(column.values for column in options), strict=True)
    pairs = [(right, given) for right, *given in rows if right not in (None, "")]
    first = first_number(pairs)
    # If the first option is called "Answer 1" and no answer is 0, the answer 1 may mean "Answer 1"
    # or, counted from 0, the second option. No row shows which one is right.
    if not first and options[0].head[-1] == "1" and 0 not in (answer.numbers or [0]):
        return False
    # With only two options, every answer must match: otherwise a mistake could not be distinguished
    # from a column about something else.
    is_near = _nearly_all if len(options) > 2 else all
    return is_near(place_of(right, given, first=first) is not None for right, given in pairs)


def _distractors(columns: Sequence[Column]) -> Iterator[ColumnMapping]:
    """Yield the mapping of a right answer in one column and wrong ones in others or in a list."""
    wrong = [c for c in columns if c.head.rstrip("0123456789") in NAMED["distractor"]]
    rest = [column for column in columns if column not in wrong]
    answer = next((c for c in rest if c.head in (*NAMED["answer"], "correct", "right")), None)
    if not wrong or answer is None or answer.is_list:
        return
    rows = zip(answer.values, *(column.values for column in wrong), strict=True)
    pairs = [(right, listed(others)) for right, *others in rows if right not in (None, "")]
    most = max((len(others) for _, others in pairs), default=0)
    # If the number of distinct answers is at most the number of options, the answers are letters or
    # numbers that refer to options. A right answer never equals one of the wrong options.
    is_one = most > 1 and len(answer.distinct) > most + 1
    if is_one and _nearly_all(right not in others for right, others in pairs):
        yield from _choice(columns, [*wrong, answer], answer)


def _choice(
    columns: Sequence[Column],
    options: Sequence[Column],
    answer: Column,
    keys: Column | None = None,
) -> Iterator[ColumnMapping]:
    # An explanation of the answer is not a context: it gives the answer away.
    rest = [c for c in columns if c not in (*options, answer, keys) and not c.is_id]
    rest = [column for column in rest if column.key not in NAMED["why"]]
    texts = [column for column in rest if column.is_text]
    question = _called(rest, "question") or _whole(texts)
    if question is None:
        # With options, the task is a multiple choice. If several texts may be the question, the
        # user has to choose.
        for text in texts:
            yield _mapping("choice", question=text, options=options, keys=keys, answer=answer)
        return
    asked = [str(value) for value in question.values]
    others = [  # not a text that the question contains, as HellaSwag's ctx contains its ctx_a
        c for c in texts if c is not question and not all(map(contains, asked, map(str, c.values)))
    ]
    context = _called(others, "context") or (others[0] if len(others) == 1 else None)
    yield _mapping(
        "choice", context=context, question=question, options=options, keys=keys, answer=answer
    )


def _whole(texts: Sequence[Column]) -> Column | None:
    """Return the text column that contains the others in each row (SWAG's startphrase), or None."""
    for column in texts:
        values = [str(value) for value in column.values]
        if all(all(map(contains, values, map(_text, other.values))) for other in texts):
            return column
    return None


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _options_in_rows(columns: Sequence[Column]) -> Iterator[ColumnMapping]:
    """Yield both mappings of a table with a row per option, of which one per question is right.

    The rows may be the options of a multiple-choice question, or pairs to classify.
    """
    question = _called(columns, "question")
    flags = [column for column in columns if column.is_flag and not column.is_id]
    texts = [c for c in columns if c.is_text and c is not question]
    if question is None or len(flags) != 1 or len(texts) != 1:
        return
    right: defaultdict[str, list[float]] = defaultdict(list)
    for asked, flag in zip(question.values, flags[0].values, strict=True):
        right[str(asked)].append(float(flag))
    if all(len(found) > 1 and sum(found) == 1 for found in right.values()):
        # The rows do not show whether they are options or pairs. Both mappings are yielded, so the
        # user has to choose.
        yield _mapping("choice", question=question, option=texts[0], label=flags[0])
        yield _mapping("class", text=question, text2=texts[0], label=flags[0])


def _labels(columns: Sequence[Column]) -> Iterator[ColumnMapping]:
    """Yield mappings of texts with a class, several labels or a number."""
    if (released := _released(columns)) is not None:
        yield released
        return
    group = next((c for c in columns if c.key in NAMED["group"] and _repeats(c)), None)
    beside = {"group": (group.name,)} if group else {}
    rest = [column for column in columns if column is not group]
    texts = list(_text_roles([column for column in rest if not column.is_id]))
    used = {name for roles in texts for names in roles.values() for name in names}
    free = [column for column in rest if column.name not in used and not column.is_id]
    # In STS, a pair of sentences has a score, which is the label, and a genre, which is not.
    keys = {column.key for column in columns}
    if {"sentence1", "sentence2"} <= keys and _first(free, NAMED["number"]):
        free = [column for column in free if column.key != "genre"]
    # Some columns judge the text in another one: "Q4_theme" judges the text in "Q4".
    names = {name for roles in texts for name in roles["text"]}
    coded = [c for c in free if _label_roles(c) and any(_codes(c, name) for name in names)]
    named = [c for c in free if c not in coded and (_is_label(c) or _is_called_label(c))]
    targets = _targets(coded if coded and not named else free)
    taken = {name for target in targets for names in target.values() for name in names}
    # A text that often repeats, such as a headline or a hypothesis, may be the second text of a
    # pair.
    again = [c for c in free if c.mean_words > SHORT_WORDS and c.name not in taken]
    again = list(filter(_is_of_most_rows, again))
    _check_answers(columns, used | taken, is_named=any(_is_label(c) for c in free))
    if len(texts) == 1 and len(again) == 1 and "text2" not in texts[0]:
        texts.append({**texts[0], "text2": (again[0].name,)})
    for target in targets:
        for roles in _with_aspects(texts, target, columns, free):
            (role,) = target
            yield mapping_of({**roles, **target, **beside}, role)


MOST_ALIKE = 0.05
"""If at most this share of the texts occurs with several labels, the other labels are considered
mistakes of annotators. With a larger share, the label probably depends on another column too.
"""


def _with_aspects(
    texts: Sequence[dict[str, tuple[str, ...]]],
    target: Mapping[str, Sequence[str]],
    columns: Sequence[Column],
    free: Sequence[Column],
) -> Sequence[dict[str, tuple[str, ...]]]:
    """Add a column of aspects as a second text, if equal texts have different labels.

    An aspect is what the label judges in the text. The mapping without it is kept, unless the name
    of the column shows its role, or the aspect occurs in the text.
    """
    by_name = {column.name: column for column in columns}
    (names,) = target.values()
    if len(texts) != 1 or [*map(len, texts[0].values()), len(names)] != [1, 1]:
        return texts
    text, label = by_name[texts[0]["text"][0]], by_name[names[0]]
    odd = _count_odd([text], label)
    if odd <= max(2, MOST_ALIKE * len(text.distinct)):
        return texts
    # Keep the columns of words that, together with the text, determine the label in nearly all
    # rows.
    found = [c for c in free if c not in (text, label) and c.mean_words and not c.is_origin]
    found = [c for c in found if len(c.distinct) > 1]
    found = [c for c in found if _count_odd([text, c], label) <= FEW_ODD * odd]
    aspects = [c for c in found if c.words & NAMED["aspect"] or _is_within(c, text)]
    more = [{**texts[0], "text2": (column.name,)} for column in aspects or found]
    return more if aspects else [*texts, *more]


def _is_within(part: Column, whole: Column) -> bool:
    """Return whether nearly all values of a column occur as words in another column."""
    pairs = [(one, str(text)) for one, text in zip(part.values, whole.values, strict=True) if one]
    return _nearly_all(bool(re.search(rf"\b{re.escape(one)}\b", text)) for one, text in pairs)


def _count_odd(given: Sequence[Column], label: Column) -> int:
    """Count the combinations of values in the columns that occur with several labels."""
    labels: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for value, *key in zip(label.values, *(column.values for column in given), strict=True):
        if value not in (None, ""):
            labels[tuple(map(str, key))].add(str(value))
    return sum(len(found) > 1 for found in labels.values())


GRADES = (5, 7, 10)
"""Highest grades of common rating scales, such as 5 stars."""


def _released(columns: Sequence[Column]) -> ColumnMapping | None:
    """Map a table without column names to a class and a text, or to a class, a title and a text.

    AG News and others were released in this layout. Return None if the columns do not fit, or if
    the classes may be grades, because the highest one is the top of a rating scale.
    """
    if [column.name for column in columns] not in (["1", "2"], ["1", "2", "3"]):
        return None
    label, *texts = columns
    numbers = {*(label.numbers or ())}
    is_counted = numbers in ({*range(len(numbers))}, {*range(1, len(numbers) + 1)})
    if "label" not in _label_roles(label) or not is_counted or max(numbers, default=0) in GRADES:
        return None
    if not all(column.is_text for column in texts) or (len(texts) == 2 and not _is_title(*texts)):
        return None
    return _mapping("class", text=texts[0], text2=texts[1:], label=label)


def _is_title(title: Column, text: Column) -> bool:
    """Return whether titles are shorter than texts, mostly not sentences and not part of a text."""
    pairs = [
        (str(one).strip(), str(other)) for one, other in zip(title.values, text.values, strict=True)
    ]
    ends = sum(one.endswith((".", "?")) or one in other for one, other in pairs)
    return title.mean_words < text.mean_words and ends < len(pairs) / 2


def _check_answers(columns: Sequence[Column], used: Collection[str], *, is_named: bool) -> None:
    """Raise DataError if a mapping to a class would ignore the answers or options of questions."""
    asked = _called(columns, "question")
    left = [_called(columns, "answer"), _first(columns, NAMED["options"] - NAMED["answer"])]
    names = [repr(c.name) for c in left if c is not None and c.name not in used]
    if asked is not None and names and not is_named:
        raise DataError(
            f"the questions in {asked.name!r} have answers or options in {' and '.join(names)} "
            "that fit neither a span of a context nor a choice: choose columns with --columns, "
            "such as text=...,label=... for a class."
        )


def _is_label(column: Column) -> bool:
    return bool({column.key, column.leaf} & NAMED["label"])


def _codes(column: Column, text: str) -> bool:
    """Return whether a column has codes for a text: "Q4_theme", with codes for the text "Q4"."""
    suffix = column.name.removeprefix(text) if text and column.name.startswith(text) else ""
    parts = re.split(r"[\W_]+", suffix.lower())
    return len(parts) == 2 and not parts[0] and parts[1] in NAMED["coded"]


def _repeats(column: Column) -> bool:
    return 1 < len(column.distinct) < len(column.known) and not column.is_list


def _text_roles(columns: Sequence[Column]) -> Iterator[dict[str, tuple[str, ...]]]:
    texts = _texts(columns)
    by_key = _by_key(columns, texts)
    for one, other in PAIRS:
        if not {one, other} <= by_key.keys():
            continue
        # Columns with only one or two words per cell are usually not in `texts`. Two such columns
        # are accepted as a pair of texts only if `texts` is empty.
        if by_key[one] in texts or by_key[other] in texts or not texts:
            pair = (by_key[one].name, by_key[other].name)
            yield {"text": pair[:1], "text2": pair[1:]}
            # An answer to a question on a passage may be judged together with the question.
            answer = _called([column for column in texts if column.name not in pair], "answer")
            if one == "question" and answer is not None:
                yield {"text": (pair[0], answer.name), "text2": pair[1:]}
            return
    # Two texts with other names may be a pair, or only one of them may matter. Yield all three
    # possibilities.
    for column in texts:
        yield {"text": (column.name,)}
    if len(texts) == 2:
        yield {"text": (texts[0].name,), "text2": (texts[1].name,)}
    if len(texts) > 2:
        yield {"text": tuple(column.name for column in texts)}


TITLES = ("title", "headline", "heading")
"""Last words in the names of columns that contain titles."""


def _by_key(columns: Sequence[Column], texts: Sequence[Column]) -> dict[str, Column]:
    by_key = {column.key: column for column in columns if column.mean_words}
    # "issue_title" and "issue_body" are a title and a body.
    parts = [re.split(r"[\W_]+", column.name.lower()) for column in texts]
    if len(parts) == 2 and parts[0][:-1] == parts[1][:-1]:
        by_key |= {part[-1]: column for part, column in zip(parts, texts, strict=True)}
    titles = [part[-1] in TITLES for part in parts]
    if sorted(titles) == [False, True]:
        title, body = texts[titles.index(True)], texts[titles.index(False)]
        # A body is longer than its title. Explanations and answers, which reveal labels, are not
        # bodies.
        if title.mean_words < body.mean_words and body.key not in NAMED["why"] | NAMED["answer"]:
            by_key |= {"title": title, "body": body}
    return by_key


def _texts(columns: Sequence[Column]) -> list[Column]:
    """Return the columns of texts: those with prose if there are any, else those with words."""
    texts = [column for column in columns if column.is_text and column.key not in NAMED["label"]]
    # Use columns that are empty in most rows, or that describe the origin of rows, only if there
    # are no other columns of texts.
    texts = list(filter(_is_of_most_rows, texts)) or texts
    if any(column.mean_words > SHORT_WORDS for column in texts):
        return [column for column in texts if column.mean_words > NAME_WORDS]
    # Texts of one or two words count if their column is named as a text.
    named = [c for c in columns if c.key in {"text", "sentence", "review", "word", "term"}]
    return texts or [c for c in named if c.numbers is None and not c.is_list]


def _is_of_most_rows(column: Column) -> bool:
    return not column.is_origin and len(column.known) > len(column.values) / 2


def _targets(columns: Sequence[Column]) -> list[dict[str, tuple[str, ...]]]:
    """Return the possible targets; each maps a role to its columns."""
    fitting = [(column, roles) for column in columns if (roles := _label_roles(column))]
    # A column about the origin of the row is not the label if any other column may be.
    plain = [pair for pair in fitting if not pair[0].is_origin]
    # But a column inside "meta" that has a usual name for labels may be the label, unless a column
    # elsewhere has such a name.
    called = [p for p in fitting if _is_label(p[0]) or _is_called_label(p[0])]
    if any(p in plain for p in called) or not any(column.is_meta for column, _ in called):
        fitting = plain or fitting
    called = [pair for pair in called if pair in fitting]
    if any(not column.is_fact for column, _ in called):
        fitting = [pair for pair in fitting if not pair[0].is_fact or pair[0].is_flag]
    best = [pair for pair in fitting if _is_label(pair[0])]
    named = [pair for pair in fitting if _is_called_label(pair[0])]
    # If "label" and "sentiment" have the same classes, one of them may be a model's prediction, so
    # both are possible.
    if len(best) == 1 and best[0][0].key in {"label", "labels", "class"}:
        best += [p for p in named if p not in best and p[0].distinct == best[0][0].distinct]
    # "target" may name the topic of a stance, which is the same in all rows: it is not a label.
    varied = [pair for pair in [*best, *named] if len(pair[0].distinct) > 1]
    if best and varied and all(len(column.distinct) < 2 for column, _ in best):
        best, named = [], varied
    # If "target" has several values, these may be topics instead of labels. A column for the stance
    # on the topic may then be the label as well.
    if [column.key for column, _ in best] == ["target"] and best[0][0].numbers is None:
        best += [p for p in named if p[0].words & {"stance", "sentiment", "polarity"}]
    flags = [column for column, _ in fitting if column.is_flag]
    # There is a column for each label, such as "toxic" and "insult". If every row has exactly one
    # 1, the labels may be classes as well.
    if len(best) != 1 and len(flags) > 1 and len(flags) == len(fitting):
        names = tuple(column.name for column in flags)
        one = all(sum(map(float, row)) == 1 for row in zip(*(c.values for c in flags), strict=True))
        return [{"label": names}, {"labels": names}] if one else [{"labels": names}]
    # A column called "label" is preferred to "sentiment" and "score", and these to all other
    # columns.
    chosen = best or named or fitting
    together = [{"labels": tuple(column.name for column in flags)}]
    return (together if chosen is fitting and len(flags) > 1 else []) + [
        {role: (column.name,)} for column, roles in chosen for role in roles
    ]


def _is_called_label(column: Column) -> bool:
    """Return whether the name contains a word for classes or, unless it is a flag, for numbers."""
    called = NAMED["category"] | {"category", "label", "class"}
    return bool(column.words & (called if column.is_flag else called | NAMED["number"]))


def _label_roles(column: Column) -> tuple[str, ...]:
    """Return the roles that a column can have as the target: none, one or two."""
    if column.is_list:
        return _list_roles(column)
    # A label column with a single value is kept, so that an error can name this value.
    if len(column.distinct) < 2:
        return ("label",) if column.key in CLASSES and column.known else ()
    if column.numbers is not None:
        return _number_roles(column)
    is_bool = all(isinstance(value, bool) for value in column.known)
    are_tags = _are_sentences_of_tags(column)
    # A value that consists of three or more numbers with commas between them is not a decimal.
    are_several = any(len(found) > 2 for found in _sets_in(column.distinct))
    if not (is_bool or are_tags) and (are_several or separator_of(column.known)):
        return ("labels",)
    if are_tags or column.odd_number is not None:
        return ()  # `_check_odd` reports an odd number if no other column fits
    # A class has at least three rows on average, unless there are only two classes.
    most = min(MOST_CLASSES, max(2, len(column.known) / 3), len(column.known) - 1)
    is_few = len(column.distinct) <= most
    return ("label",) if is_bool or (is_few and not column.is_text) else ()


def _list_roles(column: Column) -> tuple[str, ...]:
    """Return the roles that a column of lists can have as the target."""
    inner = [each for value in column.known for each in value]
    words = all(isinstance(each, str) for each in inner)
    if not words or column.key in NAMED["words"] or not any(column.known):
        return ()
    # Tags of words are not labels of a text. Prodigy's options, which are the same in all rows, are
    # not either.
    is_menu = column.key.startswith("options") and len(column.distinct) == 1
    if all(map(is_entity_tag, inner)) or is_menu:
        return ()
    # If every list has one item, the items are classes. If some lists are empty and all others have
    # one item, the number of empty lists matters: a few belong to texts that nobody has labelled
    # yet, and the items are classes; many may also mean that no label applies, so the items are
    # classes or labels.
    counts = frozenset(map(len, column.known))
    empty = sum(not value for value in column.known)
    if counts == {0, 1} and empty <= FEW_ODD * len(column.known):
        return ("label",)
    fitting = {frozenset({1}): ("label",), frozenset({0, 1}): ("label", "labels")}
    return fitting.get(counts, ("labels",))


def _are_sentences_of_tags(column: Column) -> bool:
    """Return whether every value is a sequence of tags, with any separator."""
    parts = [each for value in column.known for each in re.split(r"[\s,;|]+", str(value).strip())]
    return len(parts) > len(column.known) and all(map(is_entity_tag, parts))


def _number_roles(column: Column) -> tuple[str, ...]:
    # In a column that also has "3", the value "1,2" may be 1.2, or the labels 1 and 2.
    if column.decimal == ",":
        is_mixed = not all("," in word for word in column.distinct - MISSING)
        if is_mixed and _are_sets(column.distinct - MISSING):
            return ("labels",)
        may_be_sets = (is_mixed and separator_of(column.known)) or _may_be_sets(column.distinct)
        return ("labels", "number") if may_be_sets else ("number",)
    if not column.is_whole:
        return ("number",)
    found = set(column.numbers or ())
    is_counted = column.key in CLASSES and found == set(range(len(found)))
    if len(found) == 2 or is_counted:
        return ("label",)
    # A few whole numbers, such as 1 to 5 stars, may be classes or numbers. Both are possible, so
    # the user has to choose.
    if len(found) > FEW:
        return ("number",)
    return ("label", "number")


SETS, LASTS = 8, 3
"""Conditions for reading values such as "3,5" as sets of labels. At least LASTS different labels
must be the last one of a value; the values may then be sets or decimals. They are certainly sets
only if, in addition, at least SETS different values have several labels.
"""


def _are_sets(values: Collection[str]) -> bool:
    """Return whether values such as "3" and "3,5" are sets of label numbers instead of decimals.

    The numbers in a set ascend, and each also occurs alone in another row. Decimals do so only by
    chance.
    """
    several, alone = _sets_in(values), {value for value in values if value.isdigit()}
    is_known = all(part in alone for found in several for part in found)
    return _may_be_sets(values, is_even=True) and is_known and len(several) >= SETS


def _may_be_sets(values: Collection[str], *, is_even: bool = False) -> bool:
    """Return whether values such as "3,10" may be sets of label numbers.

    The numbers in a set ascend. Decimals with equally many digits may look the same; only `is_even`
    accepts them. Otherwise the parts after the last comma must differ in length, and may also end
    in 0 instead of ascending: nobody writes the decimals 3,10 and 25,9 in one column.
    """
    several = _sets_in(values)
    lasts = {found[-1] for found in several}
    ascend = all(int(one) < int(after) for found in several for one, after in pairwise(found))
    is_whole = not any(re.match(r"0\d", part) for found in several for part in found)
    if not is_whole or len(lasts) < LASTS:
        return False
    is_padded = any(len(last) > 1 and last[-1] == "0" for last in lasts)
    return ascend if is_even else len({*map(len, lasts)}) > 1 and (ascend or is_padded)


def _sets_in(values: Collection[str]) -> list[list[str]]:
    """Split the values with several numbers; return [] if any value has anything but numbers."""
    parts = [
        re.split(r"\s*,\s*", value.strip()) for value in values if value.lower() not in MISSING
    ]
    is_all = all(re.fullmatch(r"[0-9]{1,3}", part) for found in parts for part in found)
    return [found for found in parts if len(found) > 1] if is_all else []


def separator_of(values: Sequence[Any]) -> str:
    """Detect the separator between labels in a cell; return "" if each cell has one label.

    The values contain several labels in three cases: each part also occurs alone in another cell;
    or the parts repeat, there are at most as many different parts as different values, at least a
    tenth of the cells have the separator, and it is one of SEPARATORS; or every cell ends in the
    separator, as in Microsoft Forms ("a;b;"), and the parts repeat. In the first case, no part may
    have more than three words unless the separator is ";" or "|", and in the second none may.

    Args:
        values: The values of a column; empty ones are ignored.
    """
    known = [normalize("NFC", str(value)) for value in values if value not in (None, "")]
    for separator in SEPARATORS + RARE_SEPARATORS if known else "":
        ends = separator in SEPARATORS and all(v.rstrip().endswith(separator) for v in known)
        bare = (value.rstrip().removesuffix(separator) if ends else value for value in known)
        parts = [[p.strip() for p in value.split(separator)] for value in bare]
        counts = Counter(part for found in parts for part in found)
        several = sum(len(found) > 1 for found in parts)
        short = all(0 < len(part.split()) <= SHORT_WORDS for part in counts)
        whole = len(set(known))
        # If no value has several parts, `several` is 0, and there must be fewer different parts
        # than different values. Otherwise `several / len(parts)` is above 0 and at most 1, so there
        # may also be equally many.
        is_new = len(counts) < whole + several / len(parts)
        repeats = min(counts.values()) > 1 or len(counts) < len(parts) / 3
        alone = {found[0] for found in parts if len(found) == 1}
        is_often = several >= 0.1 * len(parts) and separator in SEPARATORS
        if (short and is_often and is_new and repeats) or (ends and len(counts) < len(parts) / 3):
            return separator
        if (short or separator in ";|") and several and set(counts) <= alone:
            return separator
    return ""


Finder = Callable[[Sequence[Column]], Iterator[ColumnMapping]]

FINDERS: tuple[Finder, ...] = (
    _distractors,
    _spans,
    _tag_lists,
    _tag_rows,
    _option_lists,
    _option_columns,
    _options_in_rows,
    _labels,
)
"""Functions that yield the possible mappings of columns, each for one layout of tables. The first
function that yields a mapping is used, so functions for layouts that belong to only one kind of
task come first.
"""
