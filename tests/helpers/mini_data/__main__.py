"""`python -m tests.helpers.mini_data [FOLDER]`: write the embedded data, here or to FOLDER."""

import sys
from pathlib import Path

from benchharness.tasks.sources.files import mini_folder
from tests.helpers.mini_data.beir import write_beir
from tests.helpers.mini_data.blimp import write_blimp
from tests.helpers.mini_data.glue import write_glue
from tests.helpers.mini_data.law import write_law
from tests.helpers.mini_data.ontonotes import write_conll2012
from tests.helpers.mini_data.others import (
    write_conll2003,
    write_race,
    write_snli,
    write_squad,
    write_sst,
    write_swag,
)
from tests.helpers.mini_data.pairs import write_pairs, write_text
from tests.helpers.mini_data.reading import write_coqa, write_hotpotqa, write_quac
from tests.helpers.mini_data.superglue import write_superglue
from tests.helpers.mini_data.xtreme import write_xtreme


def write(target: Path) -> None:
    """Write every suite's folder under `target`."""
    write_glue(target / "glue")
    write_superglue(target / "superglue")
    write_squad(target / "squad")
    write_race(target / "race")
    write_conll2003(target / "conll2003")
    write_conll2012(target / "conll2012")
    write_swag(target / "swag")
    write_snli(target / "snli")
    write_blimp(target / "blimp")
    write_sst(target / "sst")
    write_quac(target / "quac")
    write_coqa(target / "coqa")
    write_hotpotqa(target / "hotpotqa")
    write_beir(target / "beir" / "mini")
    write_pairs(target / "pairs")
    write_text(target / "text")
    write_xtreme(target / "xtreme")
    write_law(target / "lexglue")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else mini_folder())
