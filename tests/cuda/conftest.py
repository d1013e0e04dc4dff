"""The table of texts, recorded once a session."""

from pathlib import Path

import pytest

from tests.cuda.texts import Table, asked


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory, whole: bool) -> Table:
    return asked(Path(tmp_path_factory.mktemp("texts")), whole)
