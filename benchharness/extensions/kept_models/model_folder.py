"""Find the folder of a trained model, given its path or the key of the run that kept it."""

import re
from pathlib import Path

KEY = re.compile("[0-9a-fA-F]{4,64}")


def model_folder(where: str | Path, db: str) -> Path:
    """Return the folder of a model.

    An existing folder, and any text that cannot be a key, is returned as a path.

    Args:
        where: Path of the folder, or the first characters of the key of a run that kept its model.
        db: Database of the run, as in `--db`.

    Raises:
        BenchError: The key matches no run or several, or the run's model was not kept.
    """
    path = Path(where).expanduser()
    if path.is_dir() or not KEY.fullmatch(str(where)):
        return path
    # This is imported late, because it imports SQLAlchemy, which a folder does not need.
    from benchharness.extensions.kept_models.export import folder_of_key

    return folder_of_key(db, str(where))
