"""Independent reimplementation of conlleval, which shares no code with the metrics.

It never builds entities: it reads the lines once, checks at each line whether an entity ends or
starts in the gold or the predicted tags, and counts one as right if both start and end together.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

BREAK = ("O", "O")


@dataclass
class Walk:
    """Counts and state of the pass over the lines."""

    words: int = 0
    equal: int = 0
    right: int = 0
    predicted: int = 0
    gold: int = 0
    together: bool = False
    last: tuple[str, str] = BREAK

    def step(self, gold: str, guess: str, *, is_word: bool = True) -> None:
        """Process one line: the gold tag and the predicted one."""
        ends = _ends(self.last[0], gold), _ends(self.last[1], guess)
        if self.together and any(ends):
            self.right += all(ends)
            self.together = False
        starts = _starts(self.last[0], gold), _starts(self.last[1], guess)
        if all(starts) and gold[2:] == guess[2:]:
            self.together = True
        self.gold += starts[0]
        self.predicted += starts[1]
        self.words += is_word
        self.equal += is_word and gold == guess
        self.last = gold, guess


def conlleval(lines: Iterable[str]) -> Mapping[str, float]:
    """Return the scores in percent and the entity counts of lines.

    The last two columns are the gold and the predicted tag. A sentence ends with an empty line;
    "-DOCSTART-" is an ordinary word.
    """
    walk = Walk()
    for line in [*lines, ""]:
        columns = line.split()
        if columns:
            walk.step(columns[-2], columns[-1])
        else:
            walk.step(*BREAK, is_word=False)
    precision = 100 * walk.right / walk.predicted if walk.predicted else 0.0
    recall = 100 * walk.right / walk.gold if walk.gold else 0.0
    both = precision + recall
    return {
        "accuracy": 100 * walk.equal / walk.words,
        "precision": precision,
        "recall": recall,
        "FB1": 2 * precision * recall / both if both else 0.0,
    }


def _ends(before: str, tag: str) -> bool:
    return before != "O" and (tag == "O" or tag[0] == "B" or tag[2:] != before[2:])


def _starts(before: str, tag: str) -> bool:
    return tag != "O" and (before == "O" or tag[0] == "B" or tag[2:] != before[2:])
