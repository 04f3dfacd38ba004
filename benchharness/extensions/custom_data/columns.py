"""Tables of rows, and properties of columns that follow from their names and values."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

NAMED: Mapping[str, frozenset[str]] = {
    role: frozenset(names.split())
    for role, names in {
        "id": "id idx index guid uid uuid pairid qid rowid exampleid key",
        "group": "group groupid userid user author authorid docid documentid patientid threadid "
        "sessionid conversationid articleid passageid sourceid",
        "split": "split splits datasplit splitname set subset partition fold",
        "label": "label labels class target gold goldlabel y category adjudicated adjudication "
        "adjudicado adjudicatedlabel consensus consensuslabel finallabel goldstandard "
        "majoritylabel majorityvote kategorie klasse catégorie categoría categoria etiqueta "
        "étiquette accept",
        "category": "sentiment intent cats topic emotion stance polarity genre genres isduplicate "
        "duplicate categories tag tags relation entailment labelname included relevant thema thème "
        "tema stimmung sentimiento sentimento",
        "number": "score rating stars similarity grade price value points similarityscore "
        "relatedness relatednessscore number overall calificación puntuación nota bewertung punkte",
        "words": "tokens words token word form forms",
        "tags": "tags nertags tag nertag labels label ner entities iob postags pos upos chunktags",
        "context": "context passage paragraph article document text story",
        "question": "question query prompt stem ctx",
        "answer": "answer answers answertext answerstext goldanswer correctanswer rightanswer "
        "expectedanswer referenceanswer modelanswer",
        "distractor": "distractor distractors incorrectanswer incorrectanswers incorrectoption "
        "incorrect wronganswer wronganswers wrongoption wrong falseanswer",
        "start": "answerstart start answersanswerstart answerstarts",
        "options": "options choices endings candidates answers choicestext alternatives",
        "right": "answer label gold correct answeridx answerkey correctanswer target "
        "correctoption answerindex goldlabel answerid",
        "origin": "countrycode latitude longitude timezone date year month day time timestamp week "
        "hour weekday duration device browser os platform channel newspaper publisher outlet "
        "agency license licence version appversion progress finished annotator annotators coder "
        "rater labeler worker workerid confidence agreement kappa leadtime promptname",
        "fact": "gradelevel gender sex age race ethnicity prompt set part source filename file "
        "school",
        "meta": "meta metadata",
        "aspect": "aspect term entity target",
        "coded": "theme topic code coded coding label category class sentiment stance emotion "
        "thema kategorie",
        "why": "explanation explanations rationale rationales justification reasoning solution exp",
    }.items()
}
"""Usual names of the columns of each role, in lower case without punctuation (see `key_of`).

"label" is the class of a text and "number" its score; "category" is also a class, but less
certainly. "right" is the correct one of several options, "distractor" a wrong option, and "why" an
explanation that gives away the answer. "origin" describes the source of a row, its annotators, its
time or its confidence; "fact" describes the writer of the text, the writing task or the file of the
text; "meta" is an object that contains such facts about the row. "aspect" is a second text: the
label judges only this aspect of the first text. "coded" contains last words of names: a column
"Q4_theme" judges the text in the column "Q4".
"""

NULLS = frozenset(("null", "\\n", "<na>", "nan", "nat"))
"""Marks that databases and pandas write for an empty cell, in lower case."""

MISSING = frozenset(("", "na", "n/a", "none", "-", *NULLS))
"""Marks of a missing value, in lower case, including those of R ("NA") and Moodle ("-")."""

CLASSES = NAMED["label"] | NAMED["category"]

PAIRS = (
    ("premise", "hypothesis"), ("sentence1", "sentence2"), ("text1", "text2"), ("texta", "textb"),
    ("question1", "question2"), ("sentencea", "sentenceb"), ("s1", "s2"), ("query", "document"),
    ("query", "passage"), ("question", "sentence"), ("question", "passage"), ("claim", "evidence"),
    ("string1", "string2"), ("sent1", "sent2"), ("text", "textpair"), ("1string", "2string"),
    ("title", "abstract"), ("title", "body"), ("title", "description"), ("headline", "body"),
    ("subject", "body"), ("subject", "message"), ("anchor", "target"),
    ("title", "text"),
)  # fmt: skip
"""Names of two columns whose texts form a pair, normalized as by `key_of`."""

# Pattern of dates such as "2024-01-31", "31.1.2024" and "1/31/24 12:00".
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?")

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,? )?"
_LONG_DATE = re.compile(
    rf"{_DAY}(?:\d{{1,2}}\.? (?:de )?[^\W\d]+\.?,?(?: de)? \d{{4}}|{_MONTH} \d{{1,2}}\b)"
    r"(?:[\s,]+(?:at|[\d:.,+()-]+|[ap]\.?m\.?|z|utc|[a-z]{2,4}t(?:[+-]\d+)?))*|"
    r"\d{1,2} \d{1,2}, \d{4}|"
    r"(?:\d+ (?:hour|hora|heure|stunde|minut|se[cgk]|day|día|jour|tag)[^\W\d]*\s*)+",
    re.IGNORECASE,
)
"""Pattern of dates in words, with optional times, years and time zones ("Tue Mar 07 10:51:35 PST
2023", "7. März 2023", "Mar 7, 2023 at 3:00 pm"), of Amazon's "12 29, 2014", and of durations such
as "3 minutes 20 seconds"."""

_CODE = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=[a-f]*\d)[0-9a-f]{12,}", re.IGNORECASE
)
"""Pattern of UUIDs and hashes."""

_WHOLE_DATE = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:\.0)?")
_SECONDS = 946_684_800, 4_102_444_800
"""Unix times, in seconds, at which the years 2000 and 2100 begin."""

CURRENCY = re.compile(r"[$€£¥₹%]|\b(?:USD|EUR|GBP|CHF|JPY|INR)\b")

PER_CENT = "%"

FEW_ODD, MOST_ODD = 0.1, 3
"""Limits for mistakes in a column: FEW_ODD is the maximum share of values that are mistakes, and
MOST_ODD the maximum number of different mistakes. For example, a column of numbers may contain a
few words, but with more words it is not considered a column of numbers.
"""

SEEN = 100
"""Number of values at the beginning of a column that are examined to find out whether it contains
numbers, or whether the positions in another column fit to its texts.
"""

# These are maximum numbers: of words in a label (SHORT_WORDS), of classes (MOST_CLASSES), of
# different whole numbers that may be classes (FEW), of mappings that an error lists (MOST_SHOWN),
# and of words in the name of a column (LONG_NAME).
SHORT_WORDS, MOST_CLASSES, FEW, MOST_SHOWN, LONG_NAME = 3, 1000, 20, 6, 8

NAME_WORDS = 2.5
"""If a table has a column of prose, other columns with at most this mean number of words are taken
to contain names, places or addresses instead of texts.
"""

SEPARATORS, RARE_SEPARATORS = "|;,", "#/"
"""Separators between several labels in a cell. The characters in RARE_SEPARATORS also occur within
many names, so they count as separators only if each label also occurs alone. doccano's CSV uses
"#".
"""


def key_of(name: str) -> str:
    """Normalize a column's name: lower case, without punctuation, spaces and underscores."""
    return re.sub(r"[\W_]", "", name.lower())


def to_number(value: Any, decimal: str = ".") -> float:
    """Convert a cell to a number, ignoring a currency or "%".

    Args:
        value: Value of the cell.
        decimal: The decimal mark. With ".", "1,234.5" is read as 1234.5; with ",", "1.234,5" is
            read as 1234.5.

    Raises:
        ValueError: The cell is not a number.
        TypeError: The cell has a type that `float` does not accept, such as a list.
    """
    if not isinstance(value, str):
        try:
            return float(value)
        except OverflowError as error:  # an integer of hundreds of digits
            raise ValueError(value) from error
    word = CURRENCY.sub("", value).strip()
    other = "," if decimal == "." else "."
    # Remove the thousands separators in "1,234,567" and "1,234.5" or, if the decimal mark is a
    # comma, in "1.234,5".
    if re.fullmatch(rf"[-+]?[1-9]\d{{0,2}}(\{other}\d{{3}})+(\{decimal}\d+)?", word):
        word = word.replace(other, "")
    # If the decimal mark is a comma, "1.5" is not a number, but `float` below would accept it.
    elif other in word and decimal == ",":
        raise ValueError(value)
    return float(word.replace(decimal, "."))


GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})+")


def looks_grouped(values: Iterable[Any]) -> list[str]:
    """Return the numbers of a column that contain a point, if all points may separate thousands.

    "8.329" may be 8.329 or 8329, but "8.32" can only be a decimal number. If a column has such a
    number, the result is empty.

    Args:
        values: The values of a column. Values that are not texts are ignored.

    Returns:
        The numbers as texts, without their currencies.
    """
    words = (CURRENCY.sub("", value).strip() for value in values if isinstance(value, str))
    pointed = [word for word in words if "." in word]
    return pointed if all(map(GROUPED.fullmatch, pointed)) else []


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of a file, stored by column.

    Attributes:
        name: The name of the file or data set in messages.
        columns: The values of each column, keyed by its name.
        ids: An id for each row, unique in the file: usually the number of its line, or the row's
            own number or key.
        unit: The noun before an id in messages, such as "line" in "reviews.csv line 7".
        has_header: True if a line of the file names the columns; False if no line does, or if each
            value has a name of its own, as in JSON, or names are stored apart, as in Parquet.
        notes: Sentences for the user on how the file was read and what was guessed.
        ticked: The names of the columns whose cells are ticked or empty boxes.
        made: The names of three columns, if the file marks spans in a text: the columns of words
            and of tags, which were made from the spans, and the column of the spans ("" if the
            table does not contain it). Empty for other files.
        is_conll: True if the file has one word per line. Each row is then a sentence, and its id is
            the number of its first line.
        as_read: The table before the values in its cells were parsed, for rows that are written
            again; None if it was not kept.
    """

    name: str
    columns: Mapping[str, Sequence[Any]]
    ids: Sequence[str]
    unit: str = "line"
    has_header: bool = False
    notes: tuple[str, ...] = ()
    ticked: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    is_conll: bool = False
    as_read: "Table | None" = None

    def take(self, rows: Sequence[int]) -> "Table":
        """Return a table with only the rows at these indices."""
        columns = {name: [values[n] for n in rows] for name, values in self.columns.items()}
        return replace(self, columns=columns, ids=[self.ids[n] for n in rows])

    def place(self, row: int) -> str:
        """Return the location of a row for error messages, such as "reviews.csv line 7"."""
        return f"{self.name} {self.unit} {self.ids[row]}"

    def place_of_word(self, row: int, word: int) -> str:
        """Return the location of a word for error messages, such as "reviews.csv line 7 word 3".

        If the file has one word per line, the location is the line of the word.

        Args:
            row: The index of the row.
            word: The index of the word in the row.
        """
        if self.is_conll and self.ids[row].isdigit():
            return f"{self.name} line {int(self.ids[row]) + word}"
        return f"{self.place(row)} word {word + 1}"


def _last_word(name: str) -> str:
    parts = re.split(r"[\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).strip(" _").lower())
    return parts[-1]


def _is_missing(value: Any) -> bool:
    return str(value).strip().lower() in MISSING


@dataclass(frozen=True)
class Column:
    """A column of a table; None and "" are missing values.

    Attributes:
        name: The name of the column.
        values: A value for each row.
    """

    name: str
    values: Sequence[Any]

    @cached_property
    def key(self) -> str:
        """Name in lower case, without punctuation, spaces and underscores (see `key_of`)."""
        return key_of(self.name)

    @cached_property
    def leaf(self) -> str:
        """Last part of a dotted name, normalized by `key_of`: "style" for "annotation.style"."""
        return key_of(self.name.rpartition(".")[2])

    @cached_property
    def head(self) -> str:
        """Normalized name without a remark after a dash or in parentheses.

        For example, "answer1" is the head of "Answer 1 - max 75 characters".
        """
        return key_of(re.split(r"\s[-\u2013\u2014]\s|\(", self.name)[0])

    @cached_property
    def is_origin(self) -> bool:
        """True if the name describes the origin of a row, such as its source, time or annotator.

        Examples are "Country", "recorded_date", "airline_sentiment_confidence" and "meta.country".
        """
        bare = re.sub(r"\(.*?\)", "", self.name.rpartition(".")[2])  # e.g. "Duration (in seconds)"
        return bool({key_of(bare), _last_word(bare)} & NAMED["origin"]) or self.is_meta

    @cached_property
    def is_meta(self) -> bool:
        """True if the column is a field of metadata, such as Prodigy's "meta.source"."""
        return any(key_of(part) in NAMED["meta"] for part in self.name.split(".")[:-1])

    @cached_property
    def words(self) -> set[str]:
        """Normalized name and the single words of the name, in lower case.

        "Airline sentiment" gives "airlinesentiment", "airline" and "sentiment".
        """
        return {self.key, *re.split(r"[\W_]+", self.name.lower())}

    @cached_property
    def is_fact(self) -> bool:
        """True if the name describes the writer of the text, the writing task or the text's file.

        Examples are "gender", "prompt" and "filename".
        """
        return bool({self.key, _last_word(self.name)} & NAMED["fact"])

    @cached_property
    def known(self) -> list[Any]:
        """Values that are not missing."""
        return [value for value in self.values if value is not None and value != ""]

    @cached_property
    def distinct(self) -> set[str]:
        """Different values that are not missing, converted to texts."""
        return set(map(str, self.known))

    @cached_property
    def is_list(self) -> bool:
        """True if every value that is not missing is a list."""
        return bool(self.known) and all(isinstance(value, list) for value in self.known)

    @cached_property
    def numbers(self) -> list[float] | None:
        """Values as numbers; None if the column is not numeric.

        Missing values and their marks ("NA", "nan") are left out. A column with few different whole
        numbers is not numeric if it also has a mark that a person may have written, such as "NA",
        because this may be a class. Columns with different units are not numeric either.
        """
        if self.is_list or any(isinstance(v, bool) for v in self.known):
            return None
        found = [number for _, number in self._read_numbers]
        if len(found) == len(self.known):
            return found or None
        # "NA" among many different numbers is a missing value. Among a few whole numbers it may be
        # a class.
        odd = {str(v).strip() for v in self.known if _is_missing(v)}
        if len(found) + self._count_missing < len(self.known):
            return None
        if all(word == "None" or word.lower() in NULLS for word in odd):
            return found or None
        is_many = len(set(found)) > FEW or any(number % 1 for number in found)
        return found if is_many else None

    @cached_property
    def _read_numbers(self) -> list[tuple[str, float]]:
        """The numeric values, each as text and as a number; empty if their units differ."""
        if not self._may_be_numbers:
            return []
        texts = [v for v in self.known if isinstance(v, str)]
        marks = {mark for text in texts for mark in CURRENCY.findall(text)}
        # Amounts in two currencies cannot be compared, and neither can "45%" and 0.45.
        shares = sum(PER_CENT in text for text in texts)
        if len(marks) > 1 or (shares and shares < len(self.known) - self._count_missing):
            return []
        found = []
        for value in self.known:
            if _is_missing(value):
                continue
            try:
                found.append((str(value).strip().lower(), to_number(value, self.decimal)))
            except (TypeError, ValueError):
                continue
        return found

    @property
    def _count_missing(self) -> int:
        return sum(map(_is_missing, self.known))

    @cached_property
    def odd_number(self) -> tuple[int, str] | None:
        """Row index and text of the first value that is not a number, in a nearly numeric column.

        None if the column is numeric, or if too many values are not numbers (see FEW_ODD).
        """
        if self.numbers is not None or self.is_list or not self._read_numbers:
            return None
        numbers = {word for word, _ in self._read_numbers}
        words = [str(v).strip().lower() for v in self.values]
        odd = Counter(w for w in words if w not in numbers and w not in MISSING)
        if not odd or len(odd) > MOST_ODD or odd.total() > FEW_ODD * len(self.known):
            return None
        row = next(n for n, word in enumerate(words) if word in odd)
        return row, str(self.values[row])

    @cached_property
    def decimal(self) -> str:
        """Decimal mark, "." or ",", with which more of the values are numbers.

        The result is the point if more than half of the first values are not numbers with either
        mark. If both marks give equally many numbers, the result is the point, unless points seem
        to separate thousands. They do if each value with a point has groups of three digits, some
        of these values end in 0, and other values have no point. (If the values were decimals that
        keep a final 0, all of them would have a point.)
        """
        grouped = looks_grouped(self.known)
        is_mixed = len(grouped) < len(self.known) and any(word[-1] == "0" for word in grouped)
        marks = ",." if is_mixed else ".,"
        if not self._may_be_numbers:
            return "."
        return min(marks, key=lambda mark: self._count_odd(mark, self.known))

    @cached_property
    def _may_be_numbers(self) -> bool:
        """Return whether at least half of the first values are numbers or marks of missing ones."""
        first = self.known[:SEEN]
        return any(self._count_odd(mark, first) <= len(first) / 2 for mark in ".,")

    def _count_odd(self, mark: str, values: Sequence[Any]) -> int:
        """Count the values that are neither numbers with this decimal mark nor missing."""
        odd = 0
        for value in values:
            if _is_missing(value):
                continue
            try:
                to_number(value, mark)
            except (TypeError, ValueError):
                odd += 1
        return odd

    @cached_property
    def mean_words(self) -> float:
        """Mean number of words per value; 0 if the column is numeric or a value is not a text."""
        if self.is_list or self.numbers is not None or not self.known:
            return 0.0
        texts = [value for value in self.known if isinstance(value, str)]
        is_all = len(texts) == len(self.known)
        return sum(len(v.split()) for v in texts) / len(texts) if is_all else 0.0

    @cached_property
    def is_whole(self) -> bool:
        """True if all values are whole numbers, apart from missing ones."""
        return self.numbers is not None and all(number % 1 == 0 for number in self.numbers)

    @cached_property
    def is_flag(self) -> bool:
        """True if all values are 0, 1 or booleans, and at most a tenth of them are missing."""
        if len(self.known) < (1 - FEW_ODD) * len(self.values):
            return False
        if self.known and all(isinstance(value, bool) for value in self.known):
            return True
        return set(self.numbers or [2.0]) <= {0.0, 1.0}

    @cached_property
    def is_text(self) -> bool:
        """True if the values are sentences, or long names and terms that mostly differ.

        Sentences have more than three words on average, and more than a tenth of them are
        different. Long names and terms have more than 12 characters on average, and more than half
        of them are different.
        """
        if not self.mean_words:
            return False
        letters = sum(map(len, self.known)) / len(self.known)
        varied = len(self.distinct) / len(self.known)
        # Sentences may repeat. Long names and terms count as texts only if most of them differ.
        return (self.mean_words > SHORT_WORDS and varied > 0.1) or (letters > 12 and varied > 0.5)

    @cached_property
    def is_date(self) -> bool:
        """True if all values are dates, durations or Unix times, apart from missing ones.

        False if the column has a usual name for classes or scores, such as "label" or "points".
        """
        if not self.known or self.key in CLASSES | NAMED["number"]:
            return False
        said = [v for v in self.known if not _is_missing(v)]
        if said and all(
            isinstance(v, str) and (DATE.fullmatch(v) or _LONG_DATE.fullmatch(v.strip()))
            for v in said
        ):
            return True
        if not self.is_whole or len(self.distinct) < 2:
            return False
        seconds = [n / 1000 if n > _SECONDS[1] else n for n in self.numbers or ()]
        are_seconds = all(_SECONDS[0] <= n <= _SECONDS[1] for n in seconds)
        return are_seconds or all(_WHOLE_DATE.fullmatch(str(v)) for v in self.known)

    @cached_property
    def is_code(self) -> bool:
        """True if every value is a hash or a UUID, or a single word in a column named "... id"."""
        texts = [v.strip() for v in self.known if isinstance(v, str)]
        if not texts or len(texts) < len(self.known):
            return False
        is_named = re.search(r"(?:[\W_]|^)id$|[a-z]I[dD]$", self.name)
        is_one = is_named and all(re.fullmatch(r"[!-~]+", text) for text in texts)
        return bool(is_one) or all(map(_CODE.fullmatch, texts))

    @cached_property
    def is_id(self) -> bool:
        """True if the values only number or identify the rows.

        This is so for names such as "id" or "user_id", for columns without a name, for dates, Unix
        times and hashes, and for more than 20 whole numbers that are all different. A column with a
        usual name for labels, scores or right answers only counts if it is called "number" and its
        values only rise or only fall.
        """
        # pandas writes its index as a column without a name, and reads it as "Unnamed: 0".
        if self.key in NAMED["id"] or self.key.startswith("unnamed") or not self.key:
            return True
        # A column "number", such as that of GitHub's issues, is an id if its values only rise or
        # only fall.
        if self.key == "number" and self.is_whole and len(self.distinct) == len(self.values) > FEW:
            steps = [after > one for one, after in pairwise(self.numbers or ())]
            return all(steps) or not any(steps)
        if self.is_list or self.key in CLASSES | NAMED["number"] | NAMED["right"]:
            return False
        if self.is_date or self.is_code:
            return True
        if self.is_text:
            return False
        is_named = self.key.endswith("id") and not self.key.endswith(("valid", "paid"))
        return is_named or (self.is_whole and len(self.distinct) == len(self.values) > FEW)
