"""The table of texts, recorded once a session."""

import pytest

from tests.cuda.recorded import folder
from tests.cuda.texts import Table, asked


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory, whole: bool) -> Table:
    return asked(folder(tmp_path_factory, "texts"), whole)
