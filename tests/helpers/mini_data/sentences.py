"""Sentences and pairs of CoLA, SST-2, MRPC, QQP, STS-B, WiC and QNLI, drawn from the grammar."""

from dataclasses import replace
from random import Random
from typing import NamedTuple

from tests.helpers.mini_data.grammar import Pair, Scene, draw_scene, other, plural, sentence
from tests.helpers.mini_data.lexicon import DOMAINS, HELD_OUT, NAMES, OPPOSITES, VERBS, Domain, Verb


def draw_acceptability(rng: Random) -> tuple[str, str]:
    """Draw a sentence and "1" (three of five) if it is acceptable, else "0"."""
    acceptable = rng.random() < 0.6
    words = rng.choice((_present, _perfect, _auxiliary, _passive))(rng, acceptable)
    return sentence(words), str(int(acceptable))


def _subject(rng: Random, domain: Domain, *, plural: bool) -> str:
    person = rng.choice(domain.people)
    if plural:
        return f"{rng.choice(('these', 'many', 'two'))} {person}s"
    return f"{rng.choice(('this', 'every', 'one'))} {person}"


def _draw(rng: Random) -> tuple[Domain, Verb, str, str]:
    domain = rng.choice(DOMAINS)
    return domain, rng.choice(VERBS), rng.choice(domain.things), rng.choice(domain.places)


def _present(rng: Random, acceptable: bool) -> str:
    """Draw a sentence with agreement: `this baker sells the car`, `*these bakers sells the car`."""
    domain, verb, thing, place = _draw(rng)
    plural = rng.random() < 0.5
    form = verb.base if plural is acceptable else verb.third
    return f"{_subject(rng, domain, plural=plural)} {form} the {thing} {place}"


def _perfect(rng: Random, acceptable: bool) -> str:
    """Draw a sentence with a participle after "has": `*has sell the car`."""
    domain, verb, thing, place = _draw(rng)
    form = verb.participle if acceptable else verb.base
    return f"{_subject(rng, domain, plural=False)} has {form} the {thing} {place}"


def _auxiliary(rng: Random, acceptable: bool) -> str:
    """Draw a sentence with "did not"; errors are in the verb form or the order of the article."""
    domain, verb, thing, place = _draw(rng)
    subject = _subject(rng, domain, plural=rng.random() < 0.5)
    if acceptable:
        return f"{subject} did not {verb.base} the {thing} {place}"
    event = rng.choice((f"did not {verb.third} the {thing}", f"did not {verb.base} {thing} the"))
    return f"{subject} {event} {place}"


def _passive(rng: Random, acceptable: bool) -> str:
    """Draw a passive with an agent: `*was sold the baker`, `*by the baker was sold`."""
    domain, verb, thing, place = _draw(rng)
    person = rng.choice(domain.people)
    if acceptable:
        return f"the {thing} was {verb.participle} by the {person} {place}"
    event = rng.choice((f"was {verb.participle} the {person}", f"was {verb.base} by the {person}"))
    return f"the {thing} {event} {place}"


# Opinions whose polarity depends on an adjective, on negation and on "but" (SST-2).

POSITIVE = (
    "charming", "funny", "moving", "brilliant", "clever", "warm", "gripping", "fresh", "graceful",
    "honest", "lovely", "vivid", "witty", "splendid", "tender", "lively",
)  # fmt: skip
NEGATIVE = (
    "boring", "dull", "clumsy", "tedious", "shallow", "noisy", "bland", "stale", "awkward", "messy",
    "tiresome", "hollow", "lazy", "silly", "dreary", "lifeless",
)  # fmt: skip
ASPECTS = (
    "plot", "story", "ending", "cast", "script", "music", "film", "dialogue", "camera work",
    "opening", "humour", "pace",
)  # fmt: skip
DEGREES = ("", "very", "rather", "truly", "often", "quite")


def draw_polarity(rng: Random) -> tuple[str, str]:
    """Draw a review line in SST-2's spelling (lower case, spaced marks) and "1" for praise."""
    praise = rng.random() < 0.52
    line = rng.choice((_plain, _plain, _contrast, _phrase))(rng, praise)
    return line, str(int(praise))


def _verdict(rng: Random, praise: bool) -> str:
    """Draw `very warm`, or the opposite word negated, `never dull`, for a third."""
    turned = rng.random() < 0.33
    word = rng.choice(POSITIVE if praise is not turned else NEGATIVE)
    lead = rng.choice(("not", "never", "hardly")) if turned else rng.choice(DEGREES)
    return " ".join(filter(None, (lead, word)))


def _plain(rng: Random, praise: bool) -> str:
    return f"the {rng.choice(ASPECTS)} is {_verdict(rng, praise)} . "


def _contrast(rng: Random, praise: bool) -> str:
    """Draw a contrast in which the part after "but" determines the label."""
    first, second = rng.sample(ASPECTS, 2)
    before, after = _verdict(rng, not praise), _verdict(rng, praise)
    return f"the {first} is {before} , but the {second} is {after} . "


def _phrase(rng: Random, praise: bool) -> str:
    return f"a {rng.choice(ASPECTS)} that is {_verdict(rng, praise)} and {_verdict(rng, praise)} "


# Pairs of sentences with the same meaning in other words, or with one changed fact.

FORMS = (Scene.active, Scene.fronted, Scene.passive, Scene.formal)

INTENTS = {
    "how": ("How can I {} {}?", "What is the best way to {} {}?", "How do people {} {}?"),
    "why": ("Why should I {} {}?", "What is a good reason to {} {}?", "Why do people {} {}?"),
    "where": ("Where can I {} {}?", "What is a good place to {} {}?", "Where do people {} {}?"),
    "cost": ("How much does it cost to {} {}?", "What is the price to {} {}?"),
}


def draw_paraphrase(rng: Random) -> Pair:
    """Draw two sentences, "1" (three of five) if they describe the same scene (MRPC)."""
    scene = draw_scene(rng)
    if rng.random() < 0.6:
        first, second = rng.choices(
            ((Scene.active, Scene.formal), (Scene.active, Scene.passive),
             (Scene.fronted, Scene.active), (Scene.passive, Scene.formal)),
            weights=(4, 3, 1, 2),
        )[0]  # fmt: skip
        return Pair(first(scene), second(scene), "1")
    first, second = (rng.choices(FORMS, weights=(6, 1, 2, 1))[0] for _ in range(2))
    if rng.random() < 0.35:
        return Pair(first(scene), scene.negated(), "0")
    return Pair(first(scene), second(_changed(rng, scene)), "0")


def _changed(rng: Random, scene: Scene) -> Scene:
    """Return the scene with another thing, person, place or the opposite verb."""
    domain = scene.domain
    return rng.choice(
        (
            replace(scene, thing=other(rng, domain.things, scene.thing)),
            replace(scene, person=other(rng, domain.people, scene.person)),
            replace(scene, place=other(rng, domain.places, scene.place)),
            scene.undone(),
        )
    )


def draw_questions(rng: Random) -> Pair:
    """Draw two questions, "1" (two of five) if they have the same answer (QQP).

    The others ask something else about the same thing, or the same about another one.
    """
    thing, verb = rng.choice(rng.choice(DOMAINS).things), rng.choice(VERBS).base
    intent = rng.choice(tuple(INTENTS))
    first, second = rng.sample(INTENTS[intent], 2)
    old, new = f"an old {thing}", f"a new {thing}"
    if rng.random() < 0.4:
        return Pair(first.format(verb, old), second.format(verb, old), "1")
    if rng.random() < 0.6:
        elsewhere = rng.choice(INTENTS[other(rng, tuple(INTENTS), intent)])
        return Pair(first.format(verb, old), elsewhere.format(verb, old), "0")
    same_words = rng.choice((first, second))
    return Pair(first.format(verb, old), same_words.format(verb, new), "0")


def draw_similarity(rng: Random) -> Pair:
    """Draw two sentences with a score from 0 (unrelated) to 5 (the same), as `%.3f` (STS-B).

    The score of each kind of pair varies by up to 0.4, as raters differ.
    """
    grade = rng.randrange(6)
    scene = replace(draw_scene(rng), adjective=rng.choice(rng.choice(OPPOSITES)))
    second = GRADES[grade](rng, scene)
    score = min(5.0, max(0.0, grade + rng.choice((-0.4, -0.2, 0.0, 0.0, 0.2, 0.4))))
    return Pair(scene.active(), second, f"{score:.3f}")


def _same(rng: Random, scene: Scene) -> str:
    return rng.choice((Scene.formal, Scene.passive))(scene)


def _shortened(rng: Random, scene: Scene) -> str:
    """Return the sentence without the place, or without the adjective."""
    if rng.random() < 0.5:
        return replace(scene, adjective="").active()
    return sentence(f"the {scene.person} {scene.verb.past} {scene.noun_phrase}")


def _elsewhere(rng: Random, scene: Scene) -> str:
    return replace(scene, place=other(rng, scene.domain.places, scene.place)).fronted()


def _otherwise(rng: Random, scene: Scene) -> str:
    """Return the same people and things with the opposite action."""
    return scene.undone().active() if rng.random() < 0.4 else scene.negated()


def _same_person(rng: Random, scene: Scene) -> str:
    stranger = draw_scene(rng, HELD_OUT)
    return replace(stranger, person=scene.person).active()


def _unrelated(rng: Random, _: Scene) -> str:
    return draw_scene(rng, HELD_OUT).active()


GRADES = (_unrelated, _same_person, _otherwise, _elsewhere, _shortened, _same)


# Ambiguous words in sentences that determine their sense (WiC).

SENSES = {
    "bank": (("asked the {} for money", "put the coins into the {}", "paid a bill at the {}"),
             ("swam to the {} of the river", "sat on the grassy {}", "fished from the muddy {}")),
    "bat": (("swung the {} at the ball", "hit the ball with the {}", "bought a wooden {}"),
            ("saw a {} fly out of the cave", "fed the young {}", "heard the wings of the {}")),
    "match": (("lit a candle with a {}", "struck a {} in the dark", "burned a {}"),
              ("won the {} by two goals", "played the last {}", "saw the {} at the stadium")),
    "ring": (("wore a golden {}", "put the {} on a finger", "sold the silver {}"),
             ("heard the {} of the bell", "waited for the {} of the telephone",
              "woke at the {} of the clock")),
    "spring": (("liked the flowers in {}", "planted seeds in {}", "waited all winter for {}"),
               ("fixed the {} of the clock", "bent the metal {}", "mended the {} of the chair")),
    "seal": (("saw a {} swim in the sea", "fed the {} with fish", "watched the {} dive"),
             ("broke the {} of the letter", "put a {} on the paper", "checked the {} of the jar")),
    "nail": (("hammered the {} into the wall", "pulled the {} out of the wood",
              "bent the iron {}"),
             ("painted the {} of one finger", "cut the long {} of a toe", "broke a {} at work")),
    "trunk": (("touched the {} of the elephant", "saw the elephant lift its {}",
               "drew the long {} of the elephant"),
              ("packed the {} for the journey", "put clothes into the {}", "locked the old {}")),
    "bark": (("heard the {} of the dog", "woke from the {} of the puppy",
              "knew the {} of every dog"),
             ("peeled the {} of the tree", "cut a name into the {} of the oak",
              "touched the rough {} of the tree")),
    "palm": (("read the lines of the {}", "held a coin in the {} of the hand",
              "opened the {} of the hand"),
             ("slept under the {} on the beach", "planted a {} near the sea",
              "climbed the tall {} for a coconut")),
}  # fmt: skip
PEOPLE = tuple(person for domain in DOMAINS for person in domain.people)


class Usage(NamedTuple):
    """A word in two sentences, and whether it has the same sense in both."""

    word: str
    first: str
    second: str
    same: bool


def draw_usage(rng: Random) -> Usage:
    """Draw a word in two sentences; half of the pairs have the same sense."""
    word = rng.choice(tuple(SENSES))
    same = rng.random() < 0.5
    one, two = rng.sample(SENSES[word], 2)
    first, second = rng.sample(one, 2) if same else (rng.choice(one), rng.choice(two))
    return Usage(word, _sentence(rng, first, word), _sentence(rng, second, word), same)


def _sentence(rng: Random, event: str, word: str) -> str:
    return f"The {rng.choice(PEOPLE)} {event.format(word)}."


# Questions, with sentences that answer them or only share words with them (QNLI).

ANSWERED, UNANSWERED = "entailment", "not_entailment"

KINDS = ("who", "when", "where", "how many")


def draw_answering(rng: Random) -> Pair:
    """Draw a question and a sentence, half of them with the answer."""
    scene = draw_scene(rng)
    asked = rng.choice(KINDS)
    answered = rng.random() < 0.5
    told = asked if answered else rng.choice([kind for kind in KINDS if kind != asked])
    label = ANSWERED if answered else UNANSWERED
    return Pair(_question(asked, scene), _statement(rng, told, scene), label)


def _question(kind: str, scene: Scene) -> str:
    verb, thing, person = scene.verb, scene.thing, scene.person
    match kind:
        case "who":
            return f"Who {verb.past} the {thing}?"
        case "how many":
            return f"How many {plural(thing)} did the {person} {verb.base}?"
    return f"{kind.capitalize()} did the {person} {verb.base} the {thing}?"


def _statement(rng: Random, kind: str, scene: Scene) -> str:
    verb, thing, person = scene.verb, scene.thing, scene.person
    match kind:
        case "who":
            name = rng.choice(NAMES["female"] + NAMES["male"])
            return sentence(f"the {thing} was {verb.participle} by {name}")
        case "when":
            return sentence(f"the {person} {verb.past} the {thing} in {rng.randrange(1900, 1990)}")
        case "where":
            return scene.active()
    return sentence(f"the {person} {verb.past} {rng.randrange(12, 99)} {plural(thing)}")
