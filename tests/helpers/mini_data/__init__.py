"""Generator of the embedded data (tasks/mini): `python -m tests.helpers.mini_data [FOLDER]`."""
