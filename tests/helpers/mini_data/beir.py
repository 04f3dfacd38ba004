"""A retrieval set in BEIR's layout: find the document of a scene that a query paraphrases.

People and places are the same words in both; the verb is a synonym, and the object its hypernym.
Documents of test queries have no training query.
"""

from pathlib import Path

from tests.helpers.mini_data.grammar import (
    Scene,
    draw_distinct,
    draw_scene,
    hypernym,
    write_json_lines,
    write_text,
)

DOCUMENTS = 240
HEADER = "query-id\tcorpus-id\tscore"


def _asked(scene: Scene) -> tuple[str, str, str, str]:
    return scene.person, scene.verb.formal, hypernym(scene.thing), scene.place


def _query(scene: Scene) -> str:
    person, verb, kind, place = _asked(scene)
    return f"a {kind} that the {person} {verb} {place}"


def _turned(scene: Scene) -> str:
    person, verb, kind, place = _asked(scene)
    return f"what {kind} was {verb} {place} by the {person}"


def write_beir(folder: Path) -> None:
    """Write the corpus, the queries and the judgements of three splits."""
    scenes = {_asked(s): s for s in draw_distinct("beir", DOCUMENTS + 60, draw_scene)}
    told = list(scenes.values())[:DOCUMENTS]
    assert len(told) == DOCUMENTS, "too few scenes of which each has a query of its own"
    documents = [
        {"_id": f"d{n}", "title": s.person.capitalize(), "text": s.active()}
        for n, s in enumerate(told)
    ]
    write_json_lines(folder / "corpus.jsonl", documents)
    queries: dict[str, str] = {}
    for split, places in (
        ("train", range(140)), ("dev", range(140, 190)), ("test", range(190, 240)),
    ):  # fmt: skip
        lines = [HEADER]
        for place in places:
            ways = (_query, _turned) if split == "train" else (_query,)
            for number, way in enumerate(ways):
                queries[name := f"{split}{place}{'ab'[number]}"] = way(told[place])
                lines.append(f"{name}\td{place}\t1")
                if split != "train":  # a document that was judged as not relevant
                    lines.append(f"{name}\td{(place + 7) % DOCUMENTS}\t0")
        write_text(folder / "qrels" / f"{split}.tsv", "".join(f"{line}\n" for line in lines))
    rows = ({"_id": name, "text": text, "metadata": {}} for name, text in queries.items())
    write_json_lines(folder / "queries.jsonl", rows)
