"""The columns of a table: what their names and their values say of them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

NAMED: Mapping[str, frozenset[str]] = {
    role: frozenset(names.split())
    for role, names in {
        "id": "id idx index guid uid uuid pairid qid rowid exampleid key",
        "group": "group groupid userid user author authorid docid documentid patientid threadid "
        "sessionid conversationid articleid passageid sourceid",
        "split": "split splits datasplit splitname set subset partition fold",
        "label": "label labels class target gold goldlabel y category",
        "category": "sentiment intent topic emotion stance polarity genre genres isduplicate "
        "duplicate categories tag tags relation entailment labelname",
        "number": "score rating stars similarity grade price value points similarityscore "
        "relatedness relatednessscore number",
        "words": "tokens words token word form forms",
        "tags": "tags nertags tag nertag labels label ner entities iob postags pos upos chunktags",
        "context": "context passage paragraph article document text story",
        "question": "question query prompt stem ctx",
        "answer": "answer answers answertext answerstext goldanswer",
        "start": "answerstart start answersanswerstart answerstarts",
        "options": "options choices endings candidates answers choicestext alternatives",
        "right": "answer label gold correct answeridx answerkey correctanswer target "
        "correctoption answerindex goldlabel answerid",
    }.items()
}
"""What columns of each role are called, in lower case without punctuation (`key_of`): "label" and
"number" are what a text is classified as or scored with, "category" says so less surely, and
"right" is the right one of several options."""

CLASSES = NAMED["label"] | NAMED["category"]

PAIRS = (
    ("premise", "hypothesis"), ("sentence1", "sentence2"), ("text1", "text2"), ("texta", "textb"),
    ("question1", "question2"), ("sentencea", "sentenceb"), ("s1", "s2"), ("query", "document"),
    ("query", "passage"), ("question", "sentence"), ("question", "passage"), ("claim", "evidence"),
    ("string1", "string2"), ("sent1", "sent2"), ("text", "textpair"), ("1string", "2string"),
)  # fmt: skip
"""What two texts that belong together are called."""

# "2024-01-31", "31.1.2024" and "1/31/24 12:00".
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?")
CURRENCY = re.compile(r"[$€£¥₹]|\b(?:USD|EUR|GBP|CHF|JPY|INR)\b")

# Words of a label at most, and classes; different whole numbers from which on they are no classes;
# readings of a table that an error names; and words of a column's name at most.
SHORT_WORDS, MOST_CLASSES, FEW, MOST_SHOWN, LONG_NAME = 3, 1000, 20, 6, 8

SEPARATORS = "|;,"


def key_of(name: str) -> str:
    """What of a column's name tells it from others."""
    return re.sub(r"[\W_]", "", name.lower())


def to_number(value: Any, decimal: str = ".") -> float:
    """A cell as a number, without its currency; ValueError or TypeError where it is none.

    "1,234.5" has a `decimal` point, "1.234,5" and "12,50" a decimal comma.
    """
    if not isinstance(value, str):
        return float(value)
    word = CURRENCY.sub("", value).strip()
    other = "," if decimal == "." else "."
    # Groups of three digits: "1,234,567" and "1,234.5", or with decimal commas "1.234,5".
    if re.fullmatch(rf"[-+]?[1-9]\d{{0,2}}(\{other}\d{{3}})+(\{decimal}\d+)?", word):
        word = word.replace(other, "")
    # "1.5" has no decimal comma, and `float` below would read it all the same.
    elif other in word and decimal == ",":
        raise ValueError(value)
    return float(word.replace(decimal, "."))


GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})+")


def looks_grouped(values: Iterable[Any]) -> list[str]:
    """The values with a point, where all may be whole: "8.329" is a number of either reading."""
    words = (CURRENCY.sub("", value).strip() for value in values if isinstance(value, str))
    pointed = [word for word in words if "." in word]
    return pointed if all(map(GROUPED.fullmatch, pointed)) else []


@dataclass(frozen=True)
class Column:
    """A column's name and its values; those that are None or "" are missing."""

    name: str
    values: Sequence[Any]

    @cached_property
    def key(self) -> str:
        """What of the name tells it from others."""
        return key_of(self.name)

    @cached_property
    def known(self) -> list[Any]:
        """The values that are not missing."""
        return [value for value in self.values if value is not None and value != ""]

    @cached_property
    def distinct(self) -> set[str]:
        """The different values, as texts."""
        return set(map(str, self.known))

    @cached_property
    def is_list(self) -> bool:
        """Whether every value is a list."""
        return bool(self.known) and all(isinstance(value, list) for value in self.known)

    @cached_property
    def numbers(self) -> list[float] | None:
        """The values as numbers; None where one is none."""
        if self.is_list or any(isinstance(v, bool) for v in self.known):
            return None
        marks = {mark for v in self.known if isinstance(v, str) for mark in CURRENCY.findall(v)}
        try:
            # Amounts in two currencies cannot be compared: nothing is read, and that is None.
            return [to_number(v, self.decimal) for v in self.known if len(marks) < 2] or None
        except (TypeError, ValueError):
            return None

    @cached_property
    def decimal(self) -> str:
        """What stands before the decimals: a comma, where the values are numbers by that alone.

        Or where points group thousands: decimals that end in 0 are of one length, as are none here.
        """
        grouped = looks_grouped(self.known)
        is_mixed = len(grouped) < len(self.known) and any(word[-1] == "0" for word in grouped)
        for mark in ",." if is_mixed else ".,":
            try:
                # `or True`, because a 0 would end it before a later value that is no number.
                all(to_number(value, mark) or True for value in self.known)
            except (TypeError, ValueError):
                continue
            return mark
        return "."

    @cached_property
    def mean_words(self) -> float:
        """The mean number of words of a text's values, 0 of other columns."""
        if self.is_list or self.numbers is not None or not self.known:
            return 0.0
        texts = [value for value in self.known if isinstance(value, str)]
        is_all = len(texts) == len(self.known)
        return sum(len(v.split()) for v in texts) / len(texts) if is_all else 0.0

    @cached_property
    def is_whole(self) -> bool:
        """Whether every value is a whole number."""
        return self.numbers is not None and all(number % 1 == 0 for number in self.numbers)

    @cached_property
    def is_flag(self) -> bool:
        """Whether every value is 0 or 1."""
        if self.known and all(isinstance(value, bool) for value in self.known):
            return len(self.known) == len(self.values)
        numbers = self.numbers or [2.0]
        return set(numbers) <= {0.0, 1.0} and len(self.known) == len(self.values)

    @cached_property
    def is_text(self) -> bool:
        """Whether the values are written by people, nearly every one another."""
        if not self.mean_words:
            return False
        letters = sum(map(len, self.known)) / len(self.known)
        varied = len(self.distinct) / len(self.known)
        # Sentences, of which some may repeat; or long names and terms, if most of them differ.
        return (self.mean_words > SHORT_WORDS and varied > 0.1) or (letters > 12 and varied > 0.5)

    @cached_property
    def is_id(self) -> bool:
        """Whether the values only count or name rows."""
        # pandas writes its index as a column without a name, and reads it as "Unnamed: 0".
        if self.key in NAMED["id"] or self.key.startswith("unnamed") or not self.key:
            return True
        if self.is_list or self.is_text or self.key in CLASSES | NAMED["number"] | NAMED["right"]:
            return False
        if self.known and all(DATE.fullmatch(str(value)) for value in self.known):
            return True
        is_named = self.key.endswith("id") and not self.key.endswith(("valid", "paid"))
        return is_named or (self.is_whole and len(self.distinct) == len(self.values) > FEW)
