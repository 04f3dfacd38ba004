"""Causes with their effects: two alternatives, one of which belongs to the premise (COPA)."""

from random import Random
from typing import NamedTuple

from tasks.mini.lexicon import DOMAINS

__all__ = ["Alternatives", "draw_alternatives"]

CAUSES = (
    ("{} was very hungry.", "{} ate an apple."),
    ("{} was tired.", "{} went to bed early."),
    ("{} forgot the umbrella.", "{} got wet in the rain."),
    ("{} dropped the glass.", "{} had to sweep the floor."),
    ("{} lost the key.", "{} could not open the door."),
    ("{} trained every day.", "{} won the race."),
    ("{} missed the bus.", "{} came late to work."),
    ("{} told a joke.", "{} made the guests laugh."),
    ("{} caught a cold.", "{} stayed in bed with a fever."),
    ("{} found a wallet.", "{} called the owner."),
    ("{} broke the window.", "{} paid for new glass."),
    ("{} heard a loud noise.", "{} woke up at night."),
)
PEOPLE = tuple(person for domain in DOMAINS for person in domain.people)


class Alternatives(NamedTuple):
    """A premise, two choices, which of cause or effect is asked for, and the right index."""

    premise: str
    choices: tuple[str, str]
    question: str
    label: int


def draw_alternatives(rng: Random) -> Alternatives:
    """The wrong choice is what belongs to another premise, or the other end of another event."""
    person = f"The {rng.choice(PEOPLE)}"
    events = [tuple(part.format(person) for part in event) for event in rng.sample(CAUSES, 2)]
    asks_effect = rng.random() < 0.5
    premise, right = events[0] if asks_effect else events[0][::-1]
    choices = [right, events[1][1 if asks_effect else 0]]
    rng.shuffle(choices)
    first, second = choices
    return Alternatives(
        premise, (first, second), "effect" if asks_effect else "cause", choices.index(right)
    )
