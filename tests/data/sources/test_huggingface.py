"""`hf:` data, read by the real `datasets` library from folders that it saved."""

import pytest

from saccade.data.sources import Column, open_corpus
from saccade.errors import DataError

datasets = pytest.importorskip("datasets")

PAIR = (Column("source"), Column("target"))
LABELLED = (Column("text"), Column("label"))


def rows(corpus, split):
    return [row.values for row in corpus.splits[split]]


def saved(parts, folder):
    """Save a data set as a folder, without the progress bars of the library."""
    datasets.disable_progress_bars()
    parts.save_to_disk(str(folder))
    return f"hf:{folder}"


def test_reads_every_split_of_a_saved_folder(tmp_path):
    def part(*words):
        return datasets.Dataset.from_dict(
            {"translation": [{"en": word, "fr": word.upper()} for word in words]}
        )

    folder = saved(
        datasets.DatasetDict(train=part("cat", "dog"), validation=part("hen"), test=part("owl")),
        tmp_path / "books",
    )
    corpus = open_corpus(folder, PAIR, pair="en-fr")
    assert set(corpus.splits) == {"train", "valid", "test"}
    assert rows(corpus, "train") == [("cat", "CAT"), ("dog", "DOG")]
    assert rows(corpus, "valid") == [("hen", "HEN")]


def test_reads_one_data_set_and_names_its_labels(tmp_path):
    names = datasets.ClassLabel(names=["good", "bad"])
    features = datasets.Features({"sentence": datasets.Value("string"), "label": names})
    content = {"sentence": [f"text {i}" for i in range(30)], "label": [i % 2 for i in range(30)]}
    part = datasets.Dataset.from_dict(content, features=features)
    corpus = open_corpus(
        saved(part, tmp_path / "mood"), (Column("text", ("sentence",)), LABELLED[1])
    )
    values = rows(corpus, "train") + rows(corpus, "valid")
    assert sorted(values) == sorted((f"text {i}", ["good", "bad"][i % 2]) for i in range(30))


def test_raises_on_a_missing_column_and_on_an_empty_folder(tmp_path):
    part = datasets.Dataset.from_dict({"words": ["a"]})
    with pytest.raises(DataError, match="words"):
        open_corpus(saved(part, tmp_path / "words"), LABELLED)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="cannot load"):
        open_corpus(f"hf:{tmp_path / 'empty'}", LABELLED)
