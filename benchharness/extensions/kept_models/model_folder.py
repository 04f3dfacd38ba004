"""The folder of a trained model: its own path, or what the run of a key has kept."""

import re
from pathlib import Path

KEY = re.compile("[0-9a-fA-F]{4,64}")


def model_folder(where: str | Path, db: str) -> Path:
    """The folder by its path, or by the beginning of a run's key.

    Raises BenchError for a key that no run or several have, or whose model is not kept.
    """
    path = Path(where).expanduser()
    if path.is_dir() or not KEY.fullmatch(str(where)):
        return path
    # SQLAlchemy: a folder is asked without a database.
    from benchharness.extensions.kept_models.export import folder_of_key

    return folder_of_key(db, str(where))
