"""Rows for the plugins of docs/add-task.md."""

import json
from pathlib import Path

SENTENCE = "BRCA1\tB-GENE\nbinds\tO\nTP53\tB-GENE\n.\tO\n\nIt\tO\nrains\tO\n\n"
QUESTION = {"text": "It rains.", "question": "What does it do?", "options": ["rain", "snow"]}
CONTEXT = "Press the red button. Then wait."


def genes(folder: Path) -> None:
    for split in ("train", "dev"):
        (folder / f"{split}.conll").write_text(SENTENCE * 8)


def exam(folder: Path) -> None:
    lines = [json.dumps(QUESTION | {"answer": number % 2}) for number in range(8)]
    for split in ("train", "dev"):
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")


def manual(folder: Path) -> None:
    answers = [{"text": "red", "answer_start": CONTEXT.index("red")}]
    asked = [{"id": str(n), "question": "Which button?", "answers": answers} for n in range(8)]
    paragraph = {"context": CONTEXT, "qas": asked}
    document = {"version": "1", "data": [{"title": "Manual", "paragraphs": [paragraph]}]}
    for split in ("train", "dev"):
        (folder / f"{split}.json").write_text(json.dumps(document))
