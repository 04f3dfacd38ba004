"""The folder of a trained model: its own path, or what the run of a key has kept."""

import re
from pathlib import Path

from benchharness.tasks.errors import ModelError, shown_place

KEY = re.compile("[0-9a-fA-F]{4,64}")


def model_folder(where: str | Path, db: str) -> Path:
    """The folder by its path, or by the beginning of a run's key.

    Raises BenchError for a key that no run or several have, ModelError where its model is not kept.
    """
    path = Path(where).expanduser()
    if path.is_dir() or not KEY.fullmatch(str(where)):
        return path
    # SQLAlchemy: a folder is asked without a database.
    from benchharness.driver.start_checkpoints import kept_model  # noqa: PLC0415
    from benchharness.leaderboard.store.store import open_store  # noqa: PLC0415

    with open_store(db, create=False) as store:
        job = store.result(str(where)).job
    folder = kept_model(db, job.key)
    if folder is None:
        raise ModelError(
            f"the model of {job.key[:12]} ({job.model}, {job.title}, seed {job.seed}) is not kept "
            f"beside {shown_place(db)}: the same bench run with --keep-models trains it again and "
            "keeps it."
        )
    return folder
