"""CoNLL-2012 files: short stories with predicates, semantic roles and coreference.

A story has a woman, a man and a thing. Each is mentioned again by name or pronoun, and the gender
of the pronoun determines the referent.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.helpers.mini_data.grammar import draw_splits, write_text
from tests.helpers.mini_data.lexicon import DOMAINS, NAMES, TIMES, VERBS

SIZES = (100, 40, 40)
SENTENCES = 5
GENRES = ("bc", "bn", "mz", "nw", "wb")


class Argument(NamedTuple):
    """Words [start, end) of a sentence and their role."""

    role: str
    start: int
    end: int


class Proposition(NamedTuple):
    """Position of a predicate, its base form and its arguments, which do not overlap."""

    place: int
    base: str
    arguments: tuple[Argument, ...]


class Mention(NamedTuple):
    """Words [start, end) of a sentence and the number of their entity."""

    start: int
    end: int
    entity: int


class Sentence(NamedTuple):
    """Words in their usual form, propositions in the order of predicates, and mentions."""

    words: tuple[str, ...]
    propositions: tuple[Proposition, ...]
    mentions: tuple[Mention, ...]


Document = tuple[str, bool, tuple[Sentence, ...]]
"""Genre, whether two people speak in turn, and sentences."""


@dataclass(frozen=True)
class Entity:
    """Person or thing: the first name, the later ones, and the pronouns."""

    number: int
    first: str
    again: str
    subject: str
    object: str


@dataclass
class _Draft:
    """Sentence under construction."""

    rng: Random
    told: set[int]
    words: list[str] = field(default_factory=list)
    propositions: list[Proposition] = field(default_factory=list)
    mentions: list[Mention] = field(default_factory=list)

    def say(self, text: str) -> tuple[int, int]:
        """Add words and return their span."""
        start = len(self.words)
        self.words += text.split()
        return start, len(self.words)

    def name(self, entity: Entity, case: str = "subject") -> tuple[int, int]:
        """Add a mention: the first one by name, later ones mostly by a pronoun."""
        text = entity.first
        if entity.number in self.told:
            text = getattr(entity, case) if self.rng.random() < 0.6 else entity.again
        self.told.add(entity.number)
        span = self.say(text)
        self.mentions.append(Mention(*span, entity.number))
        return span

    def act(self, verb: str) -> int:
        """Add a verb and return its position."""
        return self.say(verb)[0]

    def state(self, place: int, base: str, **arguments: tuple[int, int]) -> None:
        """Add a proposition; `ARGM_TMP` means ARGM-TMP, and `R_ARG0` means R-ARG0."""
        found = [Argument("V", place, place + 1)]
        found += [Argument(role.replace("_", "-"), *span) for role, span in arguments.items()]
        self.propositions.append(Proposition(place, base, tuple(sorted(found, key=_start))))

    def done(self) -> Sentence:
        """Return the sentence with its full stop and capital."""
        self.words.append(".")
        first, *rest = self.words
        return Sentence(
            (first[0].upper() + first[1:], *rest),
            tuple(sorted(self.propositions)),
            tuple(self.mentions),
        )


def _start(argument: Argument) -> int:
    return argument.start


def write_conll2012(folder: Path) -> None:
    """Write {train,dev,test}.english.v4_gold_conll, each with all documents of its split."""
    splits = draw_splits("conll2012", _draw_document, SIZES)
    for split, documents in zip(("train", "dev", "test"), splits, strict=True):
        lines = (
            line
            for number, document in enumerate(documents)
            for line in _lines(split, number, document)
        )
        write_text(folder / f"{split}.english.v4_gold_conll", "".join(f"{x}\n" for x in lines))


def _draw_document(rng: Random) -> Document:
    domain = rng.choice(DOMAINS)
    thing = rng.choice(domain.things)
    woman = Entity(0, rng.choice(NAMES["female"]), "", "she", "her")
    man = Entity(1, rng.choice(NAMES["male"]), "", "he", "him")
    woman, man = (_named_again(entity) for entity in (woman, man))
    cast = [woman, man] if rng.random() < 0.5 else [man, woman]
    item = Entity(2, f"the {thing}", f"the {thing}", "it", "it")
    told: set[int] = set()
    place = rng.choice(domain.places)
    kinds = [rng.choice(KINDS) for _ in range(SENTENCES)]
    sentences = tuple(kind(_Draft(rng, told), cast, item, place) for kind in kinds)
    return rng.choice(GENRES), rng.random() < 0.3, sentences


def _named_again(entity: Entity) -> Entity:
    return Entity(entity.number, entity.first, entity.first, entity.subject, entity.object)


def _deed(draft: _Draft, cast: list[Entity], item: Entity, place: str) -> Sentence:
    """Write `Anna bought the cart near the barn after lunch .`."""
    verb = draft.rng.choice(VERBS)
    who = draft.name(draft.rng.choice(cast))
    at = draft.act(verb.past)
    what = draft.name(item, "object")
    where, when = draft.say(place), draft.say(draft.rng.choice(TIMES))
    draft.state(at, verb.base, ARG0=who, ARG1=what, ARGM_LOC=where, ARGM_TMP=when)
    return draft.done()


def _deal(draft: _Draft, cast: list[Entity], item: Entity, place: str) -> Sentence:
    """Write `On monday she sold it to him .`; the place is not used."""
    when = draft.say(draft.rng.choice(TIMES))
    one, other = draft.rng.sample(cast, 2)
    who = draft.name(one)
    at = draft.act("sold")
    what = draft.name(item, "object")
    start, _ = draft.say("to")
    _, end = draft.name(other, "object")
    draft.state(at, "sell", ARG0=who, ARG1=what, ARG2=(start, end), ARGM_TMP=when)
    return draft.done()


def _talk(draft: _Draft, cast: list[Entity], item: Entity, place: str) -> Sentence:
    """Write `Peter said that she had not found it near the barn .`."""
    verb = draft.rng.choice(VERBS)
    one, other = draft.rng.sample(cast, 2)
    teller = draft.name(one)
    said = draft.act("said")
    start, _ = draft.say("that")
    who = draft.name(other)
    draft.say("had")
    denied = draft.say("not")
    at = draft.act(verb.participle)
    what = draft.name(item, "object")
    where = draft.say(place)
    draft.state(said, "say", ARG0=teller, ARG1=(start, where[1]))
    draft.state(at, verb.base, ARG0=who, ARGM_NEG=denied, ARG1=what, ARGM_LOC=where)
    return draft.done()


def _aside(draft: _Draft, cast: list[Entity], item: Entity, place: str) -> Sentence:
    """Write `The cart , he said , was sold by her .`, with the quote on both sides."""
    verb = draft.rng.choice(VERBS)
    one, other = draft.rng.sample(cast, 2)
    what = draft.name(item)
    draft.say(",")
    teller = draft.name(one)
    said = draft.act("said")
    draft.say(",")
    rest, _ = draft.say("was")
    at = draft.act(verb.participle)
    start, _ = draft.say("by")
    _, end = draft.name(other, "object")
    draft.state(said, "say", ARG1=what, ARG0=teller, C_ARG1=(rest, end))
    draft.state(at, verb.base, ARG1=what, ARG0=(start, end))
    return draft.done()


def _relative(draft: _Draft, cast: list[Entity], item: Entity, place: str) -> Sentence:
    """Write `He met the baker who had bought it at the market .`; the baker occurs only once."""
    verb = draft.rng.choice(VERBS)
    domain = draft.rng.choice(DOMAINS)
    who = draft.name(draft.rng.choice(cast))
    met = draft.act("met")
    stranger = draft.say(f"the {draft.rng.choice(domain.people)}")
    relative = draft.say("who")
    draft.say("had")
    at = draft.act(verb.participle)
    what = draft.name(item, "object")
    where = draft.say(place)
    draft.state(met, "meet", ARG0=who, ARG1=(stranger[0], what[1]), ARGM_LOC=where)
    draft.state(at, verb.base, ARG0=stranger, R_ARG0=relative, ARG1=what)
    return draft.done()


KINDS = (_deed, _deal, _talk, _aside, _relative)


# Lines of a document, with twelve columns and one more per proposition of the sentence.


def _lines(split: str, number: int, document: Document) -> Iterator[str]:
    genre, is_talk, sentences = document
    name = f"{genre}/mini/{number % 100:02}/{split}_{number:04}"
    yield f"#begin document ({name}); part 000"
    counts = [mention.entity for sentence in sentences for mention in sentence.mentions]
    for place, sentence in enumerate(sentences):
        speaker = f"Speaker#{place % 2 + 1}" if is_talk else "-"
        chains = _chains(sentence, {e for e in counts if counts.count(e) > 1})
        props = [_spans(p, len(sentence.words)) for p in sentence.propositions]
        bases = {p.place: p.base for p in sentence.propositions}
        for at, word in enumerate(sentence.words):
            base = bases.get(at, "-")
            frame = "01" if at in bases else "-"
            columns = [name, "0", str(at), word, "XX", "*", base, frame, "-", speaker, "*"]
            yield " ".join([*columns, *(prop[at] for prop in props), chains[at]])
        yield ""
    yield "#end document"


def _spans(proposition: Proposition, words: int) -> list[str]:
    """Return the column of a proposition: "(ARG0*", "*", "*)"."""
    column = ["*"] * words
    for role, start, end in proposition.arguments:
        column[start] = f"({role}{column[start]}"
        column[end - 1] += ")"
    return column


def _chains(sentence: Sentence, kept: set[int]) -> Sequence[str]:
    """Return the last column: "(0", "0)", "(0)", several separated by bars, "-" for none."""
    marks: list[list[str]] = [[] for _ in sentence.words]
    for start, end, entity in sentence.mentions:
        if entity in kept and end == start + 1:
            marks[start].append(f"({entity})")
        elif entity in kept:
            marks[start].append(f"({entity}")
            marks[end - 1].append(f"{entity})")
    return ["|".join(each) or "-" for each in marks]
