"""Details of exports of annotation tools, forms and spreadsheets (the layouts are in helpers)."""

import json
from pathlib import Path

import pytest

from benchharness.errors import BenchError, DataError
from benchharness.extensions.custom_data.annotations import characters_in, with_words
from benchharness.extensions.custom_data.columns import Table
from benchharness.extensions.custom_data.encodings import text_of
from benchharness.extensions.custom_data.find import find_own
from benchharness.extensions.custom_data.parts import read_parts
from benchharness.extensions.custom_data.readings import separator_of
from benchharness.extensions.custom_data.tables import read_table
from benchharness.extensions.custom_data.task import OwnData, define
from benchharness.extensions.custom_data.toml import read_task
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from tests.helpers.layouts import ROWS
from tests.helpers.own_files import TWO, as_csv, as_jsonl, sentence
from tests.helpers.public_layouts import mood, opinion, workbook
from tests.helpers.tool_layouts import NER, argilla_nested, cas, webanno

# Sheets.

NORTH = [["body", "team"], *([opinion(n), mood(n)] for n in ROWS)]
SOUTH = [["note", "rank"], *([sentence(n + 500), n + 0.5] for n in range(40))]


def book(folder: Path) -> str:
    pytest.importorskip("openpyxl")
    return str(workbook(North=NORTH, South_West=SOUTH)(folder))


def test_chosen_sheet_is_read_and_is_part_of_the_task(tmp_path):
    path = book(tmp_path)
    with pytest.raises(DataError, match=r"pass --sheet 'North' or --sheet 'South West'\.$"):
        find_own(path)
    north, south = (find_own(path, sheet=name) for name in ("North", "South West"))
    assert (north.own.mapping.words, north.own.labels) == ("text=body,label=team", ("neg", "pos"))
    assert (south.own.mapping.words, south.own.kind) == ("text=note,number=rank", "number")
    sent = json.loads(json.dumps(south.task.definition))
    assert sent["sheet"] == "South West"
    rows = read(define(sent), "train", parse_data(south.data)).examples
    assert {row.text_a for row in rows} < {text for text, _ in SOUTH}


def test_task_definition_without_a_sheet_has_no_sheet_field(tmp_path):
    (tmp_path / "rows.csv").write_text(as_csv([["text", "label"], *TWO]))
    own = find_own(str(tmp_path / "rows.csv")).own
    assert "sheet" not in own.to_json()
    assert OwnData.from_json({**own.to_json(), "sheet": "A"}).sheet == "A"


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("book.xlsx", {"sheet": "East"}, "has no sheet 'East' with rows: pass --sheet 'North' or"),
        ("rows.csv", {"sheet": "East"}, "--sheet applies to Excel workbooks only, and rows.csv"),
        ("a/b", {"sheet": "East", "hub": True}, "--sheet applies to files and not to the hub"),
    ],
)
def test_wrong_sheet_option_gives_a_clear_error(name, options, said, tmp_path):
    book(tmp_path)
    (tmp_path / "rows.csv").write_text(as_csv([["text", "label"], *TWO]))
    with pytest.raises(BenchError, match=said):
        find_own(name if "hub" in options else str(tmp_path / name), **options)


def test_rows_to_predict_are_read_from_the_chosen_sheet(tmp_path):
    path = book(tmp_path)
    (part,) = read_parts(path, sheet="South West")
    assert part.columns["note"] == [text for text, _ in SOUTH[1:]]
    (tmp_path / "rows.csv").write_text(as_csv([["text", "label"], *TWO]))
    with pytest.raises(BenchError, match="--sheet applies to Excel workbooks only"):
        list(read_parts(str(tmp_path / "rows.csv"), sheet="North"))


def test_command_line_requires_and_accepts_a_sheet_of_a_workbook(bench, tmp_path):
    words = ("run", "--model", "tiny", "--data-file", book(tmp_path), "--dry-run")
    ended = bench(*words)
    assert ended.code == 4
    assert "pass --sheet 'North' or --sheet 'South West'." in ended.err
    ended = bench(*words, "--sheet", "South West")
    assert ended.code == 0, ended.err
    assert "text regression: note -> rank (0.5 to 39.5)" in ended.out


def test_sheet_of_a_toml_task_is_read(tmp_path):
    book(tmp_path)
    (tmp_path / "rank.toml").write_text(
        'name = "mine/rank"\ndata = "book.xlsx"\nsheet = "South West"\nrange = [0, 50]\n'
        'columns = { text = "note", number = "rank" }\n'
    )
    task, _ = read_task(tmp_path / "rank.toml")
    train = read(task, "train", parse_data(str(tmp_path))).examples
    assert {row.text_a for row in train} < {text for text, _ in SOUTH}


# Encodings.


@pytest.mark.parametrize("text", ["wie geht\u00b4s, das war\u00b4s", "Coca\u00aeCola, a caf\u00e9"])
def test_accents_and_symbols_within_words_are_read_as_cp1252(text):
    assert text_of(Path("a.csv"), text.encode("cp1252"), "")[0] == text


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("\u0445\u043e\u0440\u043e\u0448\u0438\u0439 \u0444\u0438\u043b\u044c\u043c", "cp1251"),
        ("\u0445\u043e\u0440\u043e\u0448\u0438\u0439 \u0444\u0438\u043b\u044c\u043c", "koi8_r"),
        ("wa\u017cny \u017c\u00f3\u0142ty", "cp1250"),
        ("tambi\u00e9n est\u00e1 despu\u00e9s", "mac_roman"),
        ("sch\u00f6n und gr\u00f6\u00dfer", "cp850"),
        ("\u03ba\u03b1\u03bb\u03ae \u03c4\u03b1\u03b9\u03bd\u03af\u03b1", "cp1253"),
    ],
)
def test_error_for_an_ambiguous_encoding_offers_the_right_one_with_a_decoded_word(text, encoding):
    odd = next(word for word in text.replace(",", "").split() if not word.isascii())
    with pytest.raises(DataError, match=r"line 2 column [0-9]+ is not UTF-8") as caught:
        text_of(Path("a.csv"), f"text,label\n{text}".encode(encoding), "")
    assert f"--encoding {encoding} (which reads '{odd}' there)" in str(caught.value)


# Positions of spans.


def spans_table(*rows: tuple[str, list[dict[str, object]]]) -> Table:
    columns = {"text": [text for text, _ in rows], "spans": [spans for _, spans in rows]}
    return Table(name="x", columns=columns, ids=[*map(str, range(len(rows)))], unit="row")


def test_positions_in_utf16_units_are_converted_for_all_spans():
    smile = "\U0001f600\U0001f600 Anna and Ben"
    spans = [{"start": 5, "end": 9, "label": "PER", "text": "Anna"}]
    # This tool repeats only some of the marked texts.
    more = [{"start": 14, "end": 17, "label": "PER"}]
    found = with_words(spans_table((smile, spans), (smile, more), ("Anna", [])))
    assert found.columns["words"][0] == ["\U0001f600", "\U0001f600", "Anna", "and", "Ben"]
    assert found.columns["tags"] == [
        ["O", "O", "B-PER", "O", "O"],
        ["O", "O", "O", "O", "B-PER"],
        ["O"],
    ]
    assert found.notes == ("the positions of spans in x are read as UTF-16 units",)
    assert [characters_in(smile, units) for units in (0, 2, 4, 5, 99)] == [0, 1, 2, 3, 15]


def test_spans_with_a_wrong_text_are_counted_and_are_an_error_if_nearly_all_are_wrong():
    rows = [("NYC is far", [{"start": 0, "end": 3, "label": "LOC", "value": "New York"}])] * 8
    same = ("Rome is far", [{"start": 0, "end": 4, "label": "LOC", "value": "Rome"}])
    found = with_words(spans_table(*rows, same))
    assert found.columns["tags"][0] == ["B-LOC", "O", "O"]
    assert found.notes == ("spans of x whose text is not the one at their position: 8",)
    with pytest.raises(DataError, match=r"x row 0 gives 'New York' as the text of characters 0"):
        with_words(spans_table(*rows))


def test_span_column_with_errors_is_left_out_if_other_span_columns_are_valid(tmp_path):
    rows = [
        {
            "text": f"Anna met Ben {n}",
            "people": [[0, 4, "PER"], [9, 12, "PER"]],
            "claims": [[0, 12, "A"], [5, 8, "B"]],
            "places": [[9, 12, "LOC"]],
        }
        for n in range(40)
    ]
    (tmp_path / "x.jsonl").write_text(as_jsonl(rows))
    with pytest.raises(DataError) as caught:
        find_own(str(tmp_path / "x.jsonl"))
    assert "tags=people.tags" in str(caught.value)
    assert "claims" not in str(caught.value)
    found = find_own(str(tmp_path / "x.jsonl"), columns="words=words,tags=people.tags")
    (said,) = [said for said in found.sentences if "claims" in said and "overlaps" in said]
    assert said.startswith("the column claims is left out: x.jsonl line 1 marks the characters 5")


# INCEpTION.


def test_escaped_characters_in_webanno_tsv_are_read_and_spans_of_subwords_left_out(tmp_path):
    text = webanno([NER], ROWS).replace("\tBerlin\t", "\tB\\[er\\]lin\\;\t")
    text = text.replace("1-4\t", "1-3.1\t12-14\tAn\t*\tORG\t\n1-4\t", 1)
    (tmp_path / "doc.tsv").write_text(text)
    found = find_own(str(tmp_path / "doc.tsv"))
    assert "left out of doc.tsv: 1 spans of parts of words" in found.sentences
    rows = read(found.task, "train", parse_data(found.data)).examples
    assert "B[er]lin;" in {word for row in rows for word in row.words}
    assert found.own.labels == ("O", "B-LOC", "B-PER", "I-PER")


def test_spans_that_cross_sentences_in_uima_cas_json_are_counted(tmp_path):
    document = json.loads(cas(ROWS, "NamedEntity"))
    spans = [s for s in document["%FEATURE_STRUCTURES"] if s.get("value") == "LOC"]
    for span in spans[:2]:
        span["end"] += 40
    (tmp_path / "doc.json").write_text(json.dumps(document))
    found = find_own(str(tmp_path / "doc.json"))
    assert "left out of doc.json: 2 spans that cross the end of a sentence" in found.sentences
    del document["%FEATURE_STRUCTURES"][0]["sofaString"]
    (tmp_path / "doc.json").write_text(json.dumps(document))
    with pytest.raises(DataError, match=r"doc\.json has no text"):
        find_own(str(tmp_path / "doc.json"))


# Other tools.


def test_annotators_who_disagree_in_nested_records_of_argilla_are_an_error(tmp_path):
    rows = [argilla_nested(n, states=True) for n in range(40)]
    rows[4]["responses"]["label"].append({"value": "odd", "user_id": "u9", "status": "submitted"})
    (tmp_path / "records.json").write_text(json.dumps(rows))
    with pytest.raises(DataError, match=r"records\.json row 5 has 2 answers that differ"):
        find_own(str(tmp_path / "records.json"))


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (["a;b;", "a;", "b;"] * 4, ";"),
        (["a;", "b;"] * 6, ";"),
        (["I use it at my work;At home", "I use it at my work", "At home"] * 4, ";"),
        (["I came; I saw it all there", "He went; she saw it all", "It is; it was there too"], ""),
        (["one thing;", "two things;", "three things;"], ""),
    ],
)
def test_separator_of_multiple_choices_in_survey_answers_is_found(cells, wanted):
    assert separator_of(cells) == wanted


def test_row_names_of_r_are_the_same_in_whole_and_partial_reads(tmp_path):
    rows = "".join(f'"{n}"\t"{opinion(n)}"\t"{mood(n)}"\n' for n in ROWS)
    (tmp_path / "rows.tsv").write_text(f'"text"\t"label"\n{rows}')
    (part,) = read_parts(str(tmp_path / "rows.tsv"))
    whole = read_table([tmp_path / "rows.tsv"])
    assert [*part.columns] == [*whole.columns] == ["", "text", "label"]
    assert part.columns == whole.columns
