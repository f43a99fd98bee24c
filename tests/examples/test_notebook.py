"""The notebook "Inside the iceberg" runs from its first cell to its last, and shows pictures and plots."""

from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "inside-the-iceberg.ipynb"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Jupyter's packages
def test_the_notebook_runs_and_shows_pictures(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="the package nbformat is not installed")
    client = pytest.importorskip("nbclient", reason="the package nbclient is not installed")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.get("outputs") for cell in notebook.cells), "clear the outputs before you commit a notebook"
    client.NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output.data for cell in notebook.cells for output in cell.get("outputs", ()) if output.output_type == "execute_result"]
    assert sum("<svg" in data.get("text/html", "") for data in shown) >= 4
    assert sum("application/vnd.vegalite.v5+json" in data for data in shown) == 1
    assert all("text/plain" in data for data in shown)
