"""One folder for one test after the other, in which tables are restored that were written once."""

import shutil
from pathlib import Path

import pytest
from tests.maintenance.restored_tables import ONE_FOLDER


@pytest.fixture
def one_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty folder, whose path is the same in all tests of a process."""
    folder = tmp_path_factory.getbasetemp() / ONE_FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder
