# ruff: noqa: E501  (a pair is one line)
"""BLiMP: one synthetic minimal pair per paradigm, with four casts."""

from pathlib import Path

from tests.helpers.mini_data.grammar import write_json_lines

CASTS = (
    {
        "he": "Peter",
        "she": "Anna",
        "who": "driver",
        "whos": "drivers",
        "it": "lamp",
        "its": "lamps",
    },
    {"he": "Paul", "she": "Clara", "who": "nurse", "whos": "nurses", "it": "boat", "its": "boats"},
    {
        "he": "Henry",
        "she": "Laura",
        "who": "singer",
        "whos": "singers",
        "it": "coat",
        "its": "coats",
    },
    {
        "he": "Simon",
        "she": "Emma",
        "who": "teacher",
        "whos": "teachers",
        "it": "book",
        "its": "books",
    },
)

PAIRS = """
adjunct_island: Who should {he} visit after helping {she}? | Who should {he} visit {she} after helping?
anaphor_gender_agreement: {she} had praised herself. | {she} had praised himself.
anaphor_number_agreement: The {whos} had praised themselves. | The {whos} had praised himself.
animate_subject_passive: {he} was praised by some {whos}. | {he} was praised by some {its}.
animate_subject_trans: {she} forgot the {it}. | The {it} forgot {she}.
causative: {he} had broken the {it}. | {he} had vanished the {it}.
complex_NP_island: Who did {she} find while {he} met a {who}? | Who did {she} find a {who} that met {he}?
coordinate_structure_constraint_complex_left_branch: Whose {its} and desks did {he} sell? | Whose did {he} sell {its} and desks?
coordinate_structure_constraint_object_extraction: Who did {he} and {she} see? | Who did {he} see {she} and?
determiner_noun_agreement_1: {he} sold that {it}. | {he} sold that {its}.
determiner_noun_agreement_2: {he} sold these {its}. | {he} sold this {its}.
determiner_noun_agreement_irregular_1: {she} met that {who} and this child. | {she} met that {who} and this children.
determiner_noun_agreement_irregular_2: {she} met those children and {whos}. | {she} met that children and {whos}.
determiner_noun_agreement_with_adj_2: {he} sold these green {its}. | {he} sold this green {its}.
determiner_noun_agreement_with_adj_irregular_1: {she} and a {who} met this lazy child. | {she} and a {who} met this lazy children.
determiner_noun_agreement_with_adj_irregular_2: {she} and a {who} met those lazy children. | {she} and a {who} met that lazy children.
determiner_noun_agreement_with_adjective_1: {he} sold that green {it}. | {he} sold that green {its}.
distractor_agreement_relational_noun: A brother of the {whos} sleeps. | A brother of the {whos} sleep.
distractor_agreement_relative_clause: A {who} who sold the {its} sleeps. | A {who} who sold the {its} sleep.
drop_argument: The {whos} were eating. | The {whos} were greeting.
ellipsis_n_bar_1: {she} has one old {it} and {he} has two. | {she} has one {it} and {he} has two old.
ellipsis_n_bar_2: {she} sold one {it} and {he} sold more old {its}. | {she} sold one old {it} and {he} sold more.
existential_there_object_raising: {he} believed there to be a {who} waiting. | {he} forced there to be a {who} waiting.
existential_there_quantifiers_1: There were many {whos} waiting. | There were all {whos} waiting.
existential_there_quantifiers_2: Each {who} is there waiting. | There is each {who} waiting.
existential_there_subject_raising: There seems to be a {who} waiting. | There tries to be a {who} waiting.
expletive_it_object_raising: {she} believed it to be clear that {he} left. | {she} forced it to be clear that {he} left.
inchoative: The {its} were breaking. | The {its} were carrying.
intransitive: The {whos} were waiting. | The {whos} were finding.
irregular_past_participle_adjectives: The broken {it} fell. | The broke {it} fell.
irregular_past_participle_verbs: {he} chose the {it}. | {he} chosen the {it}.
irregular_plural_subject_verb_agreement_1: The children and a {who} were late. | The children and a {who} was late.
irregular_plural_subject_verb_agreement_2: This child likes {she}. | These children likes {she}.
left_branch_island_echo_question: {he} would sell whose {it}? | Whose would {he} sell {it}?
left_branch_island_simple_question: Whose {it} would {she} sell? | Whose would {she} sell {it}?
matrix_question_npi_licensor_present: Should {he} ever sell the {it}? | {he} should ever sell the {it}.
npi_present_1: Even {he} often sold {its}. | Even {he} ever sold {its}.
npi_present_2: {she} also sold {its}. | {she} ever sold {its}.
only_npi_licensor_present: Only {he} ever sold a {it}. | Even {he} ever sold a {it}.
only_npi_scope: Only a {who} that {he} met ever left. | A {who} that only {he} met ever left.
passive_1: The {it} was carried by {he}. | The {it} was waited by {he}.
passive_2: The {its} were carried. | The {its} were waited.
principle_A_c_command: A {who} that met {she} praised himself. | A {who} that met {she} praised herself.
principle_A_case_1: {he} said that he left the {it}. | {he} said that himself left the {it}.
principle_A_case_2: {he} imagined himself leaving the {it}. | {he} imagined he leaving the {it}.
principle_A_domain_1: {she} said that {he} praised her. | {she} said that {he} praised herself.
principle_A_domain_2: {she} said that {he} praised himself. | {she} said that {he} praised herself.
principle_A_domain_3: {he} said {she} praised herself. | {she} said {he} praised herself.
principle_A_reconstruction: It was herself that {she} praised. | It was herself that praised {she}.
regular_plural_subject_verb_agreement_1: The {whos} like {she}. | The {whos} likes {she}.
regular_plural_subject_verb_agreement_2: The {who} likes {he}. | The {whos} likes {he}.
sentential_negation_npi_licensor_present: {he} had not ever sold a {it}. | {he} had really ever sold a {it}.
sentential_negation_npi_scope: A {who} that {he} met had not ever left. | A {who} that {he} had not met had ever left.
sentential_subject_island: Who did {she} seeing the {it} annoy? | Who did {she} seeing annoy the {it}?
superlative_quantifiers_1: {he} sold more than ten {its}. | {he} sold at least no {its}.
superlative_quantifiers_2: The {who} sold at most ten {its}. | No {who} sold at most ten {its}.
tough_vs_raising_1: The {who} is hard to please. | The {who} is likely to please.
tough_vs_raising_2: The {who} is likely to leave {he}. | The {who} is hard to leave {he}.
transitive: The {who} greeted {she}. | The {who} slept {she}.
wh_island: Who does {he} know that {she} met? | Who does {he} know who {she} met?
wh_questions_object_gap: {she} saw the {it} that {he} sold. | {she} saw what {he} sold the {it}.
wh_questions_subject_gap: {she} saw the {who} that left {he}. | {she} saw who the {who} left {he}.
wh_questions_subject_gap_long_distance: {she} saw the {who} that {he} met that slept. | {she} saw who the {who} that {he} met slept.
wh_vs_that_no_gap: {she} knows that {he} sold a {it}. | {she} knows what {he} sold a {it}.
wh_vs_that_no_gap_long_distance: {she} knows that {he}, who slept, sold a {it}. | {she} knows what {he}, who slept, sold a {it}.
wh_vs_that_with_gap: {she} knows what the {who} carried. | {she} knows that the {who} carried.
wh_vs_that_with_gap_long_distance: {she} knows what the {who} that slept carried. | {she} knows that the {who} that slept carried.
"""


def write_blimp(folder: Path) -> None:
    """Write one file per paradigm, with one pair per cast."""
    for line in PAIRS.strip().splitlines():
        paradigm, _, pair = line.partition(": ")
        good, _, bad = pair.partition(" | ")
        rows = [
            {
                "sentence_good": good.format(**cast),
                "sentence_bad": bad.format(**cast),
                "UID": paradigm,
                "pairID": str(number),
            }
            for number, cast in enumerate(CASTS)
        ]
        write_json_lines(folder / "data" / f"{paradigm}.jsonl", rows)
