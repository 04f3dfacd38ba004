"""Independent reimplementation of srl-eval.pl, which shares no code with the metrics.

It compares two files of columns word by word: the first column has the predicates, and each further
one the arguments of one predicate, "(A0*", "*", "*)". Phrases are read with a stack, and
continuations of an argument are joined to it afterwards.
"""

from collections.abc import Mapping


def srl_eval(gold: str, predicted: str) -> Mapping[str, float]:
    """Return the script's line "Overall" and its perfect propositions, in percent."""
    right = excess = missed = perfect = count = 0
    for wanted, guessed in zip(_blocks(gold), _blocks(predicted), strict=True):
        found = _propositions(guessed)
        for place, arguments in _propositions(wanted).items():
            count += 1
            hits, more, less = _compare(arguments, found.get(place, []))
            right, excess, missed = right + hits, excess + more, missed + less
            perfect += not more and not less
    precision = 100 * right / (right + excess) if right + excess else 0.0
    recall = 100 * right / (right + missed) if right + missed else 0.0
    both = precision + recall
    return {
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / both if both else 0.0,
        "perfect": 100 * perfect / count if count else 0.0,
    }


Phrase = tuple[int, int]
Argument = tuple[str, list[Phrase]]


def _blocks(text: str) -> list[list[list[str]]]:
    blocks = [block.splitlines() for block in text.strip().split("\n\n")]
    return [[line.split() for line in block] for block in blocks]


def _propositions(rows: list[list[str]]) -> dict[int, list[Argument]]:
    verbs = [place for place, row in enumerate(rows) if row[0] != "-"]
    return {verb: _arguments([row[number] for row in rows]) for number, verb in enumerate(verbs, 1)}


def _arguments(column: list[str]) -> list[Argument]:
    phrases: list[tuple[str, int, int]] = []
    opened: list[tuple[str, int]] = []
    for word, cell in enumerate(column):
        before, after = cell.split("*")
        if before:
            opened.append((before[1:], word))
        if after:
            role, start = opened.pop()
            phrases.append((role, start, word))
    arguments: list[Argument] = []
    by_role: dict[str, Argument] = {}
    for name, start, end in sorted(phrases, key=lambda phrase: phrase[1]):
        role = name.removeprefix("C-")
        if role != name and role in by_role:
            by_role[role][1].append((start, end))
            continue
        by_role[role] = (role, [(start, end)])
        arguments.append(by_role[role])
    return arguments


def _compare(gold: list[Argument], guessed: list[Argument]) -> tuple[int, int, int]:
    """Return the numbers of right, excess and missed arguments without the verb, by span."""
    where = {(phrases[0][0], phrases[-1][1]): (role, phrases) for role, phrases in gold}
    right = excess = 0
    for role, phrases in guessed:
        if role == "V":
            if where.get((phrases[0][0], phrases[-1][1])) == (role, phrases):
                del where[phrases[0][0], phrases[-1][1]]
            continue
        found = where.get((phrases[0][0], phrases[-1][1]))
        if found is not None and found[0] == role and sorted(found[1]) == sorted(phrases):
            right += 1
            del where[phrases[0][0], phrases[-1][1]]
        else:
            excess += 1
    return right, excess, sum(role != "V" for role, _ in where.values())
