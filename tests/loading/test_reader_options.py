"""Options of the readers: those that `load` sets itself and misspelt ones are refused by name."""

import pytest

from icefloe.errors import InvalidInputError
from icefloe.loading.input_files import InputFormat
from icefloe.loading.reader_options import ReaderOptions, reader_options, spark_options


def test_options_have_spark_s_names_in_any_letter_case() -> None:
    chosen = reader_options({"Delimiter": "\\t", "NULLVALUE": "NA", "quote": "'", "charset": "latin-1"}, InputFormat.CSV)
    assert chosen == ReaderOptions(sep="\t", null_value="NA", quote="'", encoding="latin-1")
    assert reader_options({"escape": '"'}, InputFormat.CSV) == ReaderOptions()


@pytest.mark.parametrize(
    "option", ["header", "mode", "inferSchema", "multiLine", "MULTILINE", "columnNameOfCorruptRecord", "timestampFormat"]
)
@pytest.mark.parametrize("file_format", list(InputFormat))
def test_an_option_that_load_overrides_is_refused_by_name(option: str, file_format: InputFormat) -> None:
    with pytest.raises(InvalidInputError, match=f"(?i)--option {option} cannot be set, because load sets it itself\n  Next: "):
        reader_options({option: "x"}, file_format)


def test_a_misspelt_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InvalidInputError, match=r"nulValue is not an option of csv files\n.*did you mean nullValue"):
        reader_options({"nulValue": "NA"}, InputFormat.CSV)
    for given, meant in {
        "seperator": "sep",
        "Separater": "sep",
        "quotechar": "quote",
        "na_values": "nullValue",
        "delimeter": "delimiter",
    }.items():
        with pytest.raises(InvalidInputError, match=f"did you mean {meant}[?]"):
            reader_options({given: ";"}, InputFormat.CSV)
    with pytest.raises(InvalidInputError, match="parquet files have no options"):
        reader_options({"sep": ";"}, InputFormat.PARQUET)


@pytest.mark.parametrize(
    "options",
    [
        {"sep": ""},
        {"sep": ";;"},
        {"sep": "\n"},
        {"sep": "ä"},
        {"quote": ","},
        {"sep": ";", "delimiter": ";"},
        {"encoding": "no-such"},
        {"escape": ","},
    ],
)
def test_a_wrong_value_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError, match="--option"):
        reader_options(options, InputFormat.CSV)


def test_spark_reads_doubled_quotes_as_arrow_does() -> None:
    assert spark_options(ReaderOptions(), InputFormat.CSV)["escape"] == '"'
