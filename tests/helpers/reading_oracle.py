"""Independent reimplementations of the scripts of QuAC, CoQA and HotpotQA.

They work on the scripts' own inputs (plain objects in the official layouts) and share no code with
the metrics.
"""

from collections import Counter
from typing import Any

from tests.helpers.squad_oracle import added, f1, words


def quac(data: list[dict[str, Any]], lines: list[dict[str, Any]]) -> dict[str, float]:
    """Return the seven numbers of scorer.py with --min_f1 0.4, without divisions by zero."""
    said = {
        question: (span, yes_no, follow_up)
        for line in lines
        for question, span, yes_no, follow_up in zip(
            line["qid"], line["best_span_str"], line["yesno"], line["followup"], strict=True
        )
    }
    seen: dict[str, list[float]] = {
        key: [] for key in ("f1", "all", "yes", "follow", "none", "heq", "dialogs")
    }
    for dialog in (dialog for article in data for dialog in article["paragraphs"]):
        good = 1.0
        for question in dialog["qas"]:
            golds = _quac_golds(question)
            human = _human(golds)
            if question["id"] not in said:
                good = 0.0
                is_empty = golds == ["CANNOTANSWER"]
                for key in ("f1", "all", "yes", "follow", "heq", *["none"] * is_empty):
                    seen[key].append(0.0)
                continue
            span, yes_no, follow_up = said[question["id"]]
            points = _quac_points(span, golds)
            seen["all"].append(points)
            if human < 0.4:
                continue
            seen["f1"].append(points)
            seen["yes"].append(float(yes_no == question["yesno"]))
            seen["follow"].append(float(follow_up == question["followup"]))
            if golds == ["CANNOTANSWER"]:
                seen["none"].append(points)
            seen["heq"].append(float(points >= human))
            if points < human:
                good = 0.0
        seen["dialogs"].append(good)
    return {name: 100.0 * added(seen[k]) / len(seen[k]) for name, k in NAMES.items() if seen[k]}


NAMES = {
    "unfiltered_f1": "all",
    "f1": "f1",
    "HEQ": "heq",
    "DHEQ": "dialogs",
    "yes/no": "yes",
    "followup": "follow",
    "unanswerable_acc": "none",
}


def _quac_golds(question: dict[str, Any]) -> list[str]:
    texts = [answer["text"] for answer in question["answers"]]
    spans = [text for text in texts if text != "CANNOTANSWER"]
    return spans if len(spans) > len(texts) - len(spans) else ["CANNOTANSWER"]


def _quac_points(span: str, golds: list[str]) -> float:
    def against(refs: list[str]) -> float:
        best = 0.0
        for gold in refs:
            if gold == "CANNOTANSWER":
                best = max(best, 1.0 if span == "CANNOTANSWER" else 0.0)
            else:
                best = max(best, f1(span, gold, both_empty=0.0))
        return best

    if len(golds) == 1:
        return against(golds)
    return added(against(golds[:i] + golds[i + 1 :]) for i in range(len(golds))) / len(golds)


def _human(golds: list[str]) -> float:
    if len(golds) == 1:
        return 1.0
    best = [
        max(f1(gold, other, both_empty=0.0) for j, other in enumerate(golds) if j != i)
        for i, gold in enumerate(golds)
    ]
    return added(best) / len(golds)


IN_DOMAIN = {
    "mctest": "children_stories",
    "gutenberg": "literature",
    "race": "mid-high_school",
    "cnn": "news",
    "wikipedia": "wikipedia",
}
OUT_OF_DOMAIN = {"science": "science", "reddit": "reddit"}


def coqa(data: list[dict[str, Any]], lines: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return em, f1 and turns of evaluate-v1.0.py per domain and overall, rounded as there."""
    said = {(line["id"], line["turn_id"]): line["answer"] for line in lines}
    sums = {name: Counter[str]() for name in (*IN_DOMAIN, *OUT_OF_DOMAIN)}
    for story in data:
        for number, question in enumerate(story["questions"]):
            lists = [story["answers"], *story.get("additional_answers", {}).values()]
            golds = [answers[number]["input_text"] for answers in lists]
            total = sums[story["source"]]
            total["turns"] += 1
            if (key := (story["id"], question["turn_id"])) not in said:
                continue
            rests = [golds[:i] + golds[i + 1 :] or golds for i in range(len(golds))]
            guess = said[key]
            total["f1"] += added(max(_coqa_f1(guess, g) for g in rest) for rest in rests) / len(
                golds
            )
            total["em"] += added(
                max(float(words(guess) == words(g)) for g in rest) for rest in rests
            ) / len(golds)
    scores = {name: sums[source] for source, name in (IN_DOMAIN | OUT_OF_DOMAIN).items()}
    scores["in_domain"] = sum((sums[source] for source in IN_DOMAIN), Counter())
    scores["out_domain"] = sum((sums[source] for source in OUT_OF_DOMAIN), Counter())
    scores["overall"] = scores["in_domain"] + scores["out_domain"]
    return {
        name: {
            **{k: round(total[k] / max(1, total["turns"]) * 100, 1) for k in ("em", "f1")},
            "turns": total["turns"],
        }
        for name, total in scores.items()
    }


def _coqa_f1(guess: str, gold: str) -> float:
    if not words(guess) or not words(gold):
        return float(words(guess) == words(gold))
    return f1(guess, gold, both_empty=0.0)


def hotpotqa(data: list[dict[str, Any]], said: dict[str, Any]) -> dict[str, float]:
    """Return the twelve numbers of hotpot_evaluate_v1.py."""
    sums: Counter[str] = Counter()
    for question in data:
        name = question["_id"]
        answer = facts = None
        if name in said["answer"]:
            answer = _hotpot_answer(said["answer"][name], question["answer"])
            for key, value in zip(("em", "f1", "prec", "recall"), answer, strict=True):
                sums[key] += value
        if name in said["sp"]:
            guess = {tuple(fact) for fact in said["sp"][name]}
            gold = {tuple(fact) for fact in question["supporting_facts"]}
            shared = len(guess & gold)
            precision = shared / len(guess) if guess else 0.0
            recall = shared / len(gold) if gold else 0.0
            facts = (float(guess == gold), _harmonic(precision, recall), precision, recall)
            for key, value in zip(("em", "f1", "prec", "recall"), facts, strict=True):
                sums[f"sp_{key}"] += value
        if answer and facts:
            precision, recall = answer[2] * facts[2], answer[3] * facts[3]
            sums["joint_em"] += answer[0] * facts[0]
            sums["joint_f1"] += _harmonic(precision, recall)
            sums["joint_prec"] += precision
            sums["joint_recall"] += recall
    return {
        f"{part}{key}": sums[f"{part}{key}"] / len(data)
        for part in ("", "sp_", "joint_")
        for key in ("em", "f1", "prec", "recall")
    }


def _harmonic(precision: float, recall: float) -> float:
    both = precision + recall
    return 2 * precision * recall / both if both > 0 else 0.0


def _hotpot_answer(guess: str, gold: str) -> tuple[float, float, float, float]:
    one, other = words(guess), words(gold)
    exact = float(one == other)
    fixed = ("yes", "no", "noanswer")
    shared = (Counter(one) & Counter(other)).total()
    if not shared or (one != other and (" ".join(one) in fixed or " ".join(other) in fixed)):
        return exact, 0.0, 0.0, 0.0
    precision, recall = shared / len(one), shared / len(other)
    return exact, _harmonic(precision, recall), precision, recall
