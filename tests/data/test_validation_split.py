"""Held-out rows: bounds, strata, equal inputs, order, and the rule of runs without a record."""

import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data import validation_split
from saccade.data.sources import Column, open_corpus
from saccade.data.validation_split import (
    LabelValues,
    RowKey,
    compare_given,
    hold_out,
    hold_out_by_hash,
)
from saccade.errors import DataError

LABELLED = (
    Column("text"),
    Column("text_pair", required=False),
    Column("label", numbers=True, label=True),
)
KEY = RowKey(0)
LABEL = LabelValues(1)
OLD_ROWS = ["t53", "t63", "t67", "t75", "t114", "t120", "t135", "t142", "t147", "t189"]
OLD_DIGESTS = {
    "train": "b1c413ee6ea59a7396b1814f8a0e11db70328662991f2eb439baa14f31eb2470",
    "valid": "2f1afcfb8534020b0c1b57ec29486b4789d6f96e9f7c0596ddf0707b8e8a95db",
}


def sides(rows, **options):
    """Return the rows for training and for validation, and the record."""
    options = {"label": LABEL, **options}
    partition = hold_out(rows, KEY, "here", **options)
    train, valid = (
        [row for row in rows if side.contains(row)] for side in (partition.train, partition.valid)
    )
    assert (len(train), len(valid)) == (partition.train.count, partition.valid.count)
    assert partition.record.rows == {"train": len(train), "valid": len(valid)}
    return train, valid, partition.record


def labelled(counts):
    """Return this many different rows of each label."""
    return [(f"{label} {i}", label) for label, n in counts.items() for i in range(n)]


def default_target(rows):
    return max(min(max(round(0.1 * rows), 100), int(0.2 * rows), 2000), 1)


label_counts = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3), st.integers(1, 80), min_size=1, max_size=8
)


@settings(max_examples=25, deadline=None)
@given(label_counts, st.none() | st.floats(0.02, 0.9))
def test_each_label_has_its_fraction_within_one_row(counts, fraction):
    rows = labelled(counts)
    if max(counts.values()) < 2:
        with pytest.raises(DataError):
            sides(rows, fraction=fraction)
        return
    train, valid, record = sides(rows, fraction=fraction)
    total = len(rows)
    target = default_target(total) if fraction is None else max(round(fraction * total), 1)
    assert 1 <= len(valid) <= target
    if fraction is None and total >= 5:
        assert len(valid) <= 0.2 * total
    held = Counter(label for _, label in valid)
    for label, count in counts.items():
        exact = count * target / total
        assert math.floor(exact) <= held[label] <= math.floor(exact) + 1
        assert held[label] < count  # each label stays in training
        assert record.labels[label] == {"train": count - held[label], "valid": held[label]}
    if all(count > 1 + math.ceil(count * target / total) for count in counts.values()):
        assert len(valid) == target
    assert len(train) + len(valid) == total


rows_with_repeats = st.lists(
    st.tuples(st.integers(0, 30).map(str), st.sampled_from("abc")), min_size=2, max_size=200
)


@settings(max_examples=25, deadline=None)
@given(rows_with_repeats, st.randoms(use_true_random=False))
def test_equal_inputs_are_on_one_side_in_any_order(rows, random):
    shuffled = list(rows)
    random.shuffle(shuffled)
    try:
        train, valid, _ = sides(rows)
    except DataError:
        with pytest.raises(DataError):
            sides(shuffled)
        return
    assert not {text for text, _ in train} & {text for text, _ in valid}
    assert valid
    other_train, other_valid, _ = sides(shuffled)
    assert Counter(other_train) == Counter(train)
    assert Counter(other_valid) == Counter(valid)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(["p", "q", "r", "s"]), max_size=3, unique=True),
        min_size=10,
        max_size=150,
    )
)
def test_rows_with_several_labels_count_as_their_rarest(label_sets):
    rows = [(str(i), ", ".join(names)) for i, names in enumerate(label_sets)]
    totals = Counter(name for names in label_sets for name in names)
    strata = Counter(
        min(names, key=lambda name: (totals[name], name), default="") for names in label_sets
    )
    if max(strata.values()) < 2:
        return
    train, valid, _ = sides(rows, label=LabelValues(1, ","))
    target = default_target(len(rows))
    held = Counter(
        min(filter(None, text.split(", ")), key=lambda name: (totals[name], name), default="")
        for _, text in valid
    )
    for stratum, count in strata.items():
        assert held[stratum] <= math.floor(count * target / len(rows)) + 1
        assert held[stratum] < count
    assert len(train) + len(valid) == len(rows)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [(2, 1), (9, 1), (10, 2), (100, 20), (499, 99), (500, 100), (1000, 100), (1500, 150)],
)
def test_default_number_of_held_out_rows(rows, expected):
    assert len(sides([(str(i), "x") for i in range(rows)], label=None)[1]) == expected


def test_large_data_holds_out_2000_rows_unless_a_fraction_is_requested(monkeypatch):
    assert validation_split.MOST == 2000
    monkeypatch.setattr(validation_split, "MOST", 150)
    rows = [(str(i), "ab"[i % 2]) for i in range(3000)]
    assert len(sides(rows)[1]) == 150
    assert len(sides(rows, fraction=0.25)[1]) == 750


@given(st.lists(st.integers(0, 12), min_size=1, max_size=40), st.integers(1, 40), st.integers(1, 5))
def test_rows_without_labels_are_chosen_like_a_single_stratum(numbers, target, piece):
    """The way that needs little memory, against groups of equal rows."""
    hashes, target = np.array(numbers, np.uint64), min(target, len(numbers))
    groups = validation_split._Groups(hashes, np.zeros(len(hashes), np.int64))
    chosen = sorted(groups.hashes[groups.chosen(groups.quotas(target))].tolist())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validation_split, "PIECE", piece)
        smallest = validation_split._smallest(np.sort(hashes), target)
        assert smallest.tolist() == chosen
        among = validation_split._are_among(hashes, smallest)
        assert among.tolist() == [number in chosen for number in numbers]


def test_a_label_with_one_row_stays_in_training_with_a_remark():
    train, _, record = sides(labelled({"a": 40, "b": 40, "rare": 1}))
    assert ("rare 0", "rare") in train
    assert record.remarks == (
        'the label "rare" has only one row, which stays in training: validation cannot measure it',
    )
    with pytest.raises(DataError, match=r"each label has only one input .*--columns label=NAME"):
        sides(labelled({"a": 1, "b": 1, "c": 1}))


def test_rows_with_an_empty_column_are_never_held_out():
    rows = labelled({"a": 50, "b": 50}) + [(f"blank {i}", " ") for i in range(50)] + [("", "a")]
    train, valid, record = sides(rows)
    assert len(valid) == 20  # 20 % of the 100 complete rows
    assert all(text and label.strip() for text, label in valid)
    assert len(train) == 131
    assert record.empty == 51
    assert record.labels == {"a": {"train": 40, "valid": 10}, "b": {"train": 40, "valid": 10}}


def test_blanks_around_texts_and_labels_do_not_matter():
    rows = [(f"t{i // 2}" + " " * (i % 2), " ab"[1 + i % 2] + " " * (i % 3)) for i in range(400)]
    train, valid, record = sides(rows)
    assert set(record.labels) == {"a", "b"}
    assert not {text.strip() for text, _ in train} & {text.strip() for text, _ in valid}


def test_fractional_numbers_are_not_strata():
    rows = [(str(i), f"{i}.5") for i in range(50)]
    _, valid, record = sides(rows)
    assert len(valid) == 10
    assert record.labels is None


def test_repeated_texts_fill_the_quota_across_labels():
    rows = [(f"{label} {i // 4}", f"{label}") for label in range(50) for i in range(40)]
    _, valid, _ = sides(rows)  # 2000 rows: a quota of 4 rows per label is one text
    assert len(valid) == 200
    rows = [(f"{label} {i // 4}", f"{label}") for label in range(50) for i in range(12)]
    _, valid, _ = sides(rows)  # 600 rows, 2 per label: every second label has one text
    assert len(valid) == 100
    assert all(count == 4 for count in Counter(label for _, label in valid).values())


def test_all_equal_inputs_raise():
    with pytest.raises(DataError, match="too few different examples"):
        sides([("same", "ab"[i % 2]) for i in range(30)])


def test_inputs_of_pairs_are_both_texts(tmp_path):
    lines = [f"premise {i % 20}\thypothesis {i}\t{'yes' if i % 3 else 'no'}" for i in range(300)]
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join(["text\ttext_pair\tlabel", *lines]) + "\n")
    corpus = open_corpus(path, LABELLED)
    assert corpus.record.labels == {
        "no": {"train": 80, "valid": 20},
        "yes": {"train": 160, "valid": 40},
    }
    assert "Held out for validation: 60 of 300 rows, stratified by label." in corpus.summary
    assert corpus.splits["train"].companions == (corpus.splits["valid"],)


def test_overlap_of_given_splits_is_counted(tmp_path):
    for name, numbers in (("train", range(50)), ("valid", range(47, 60))):
        rows = [json.dumps({"text": f"t{i}", "label": i % 2}) for i in numbers]
        extra = ['{"text": "only here", "label": "new"}'] if name == "valid" else []
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows + extra) + "\n")
    corpus = open_corpus(tmp_path, LABELLED)
    assert corpus.record.rule == "given"
    assert (corpus.record.shared, corpus.record.rows) == (3, {"train": 50, "valid": 14})
    assert (
        "3 of 14 validation rows have inputs that are also in the training set"
        in (corpus.remarks[0])
    )
    assert 'the label "new" has only one row' in corpus.remarks[1]
    assert 'the label "new" has no row in the training set' in corpus.remarks[2]
    assert open_corpus(tmp_path, LABELLED, valid_fraction=0.0).record is None
    remarks = open_corpus(tmp_path, LABELLED, valid_fraction=0.3).remarks
    assert "0.3 has no effect" in remarks[-1]


def test_given_splits_without_overlap_have_no_remark():
    record = compare_given([("a", "x"), ("", "x")], [("b", "x"), ("", "x")], KEY)
    assert (record.shared, record.empty, record.remarks) == (0, 2, ())


def test_the_rule_of_runs_without_a_record_is_kept(tmp_path):
    """The digests were computed before splits were recorded."""
    path = tmp_path / "rows.tsv"
    path.write_text("text\tlabel\n" + "".join(f"t{i}\t{i % 3}\n" for i in range(200)))
    corpus = open_corpus(path, LABELLED, rule="hash")
    assert [row.values[0] for row in corpus.splits["valid"]] == OLD_ROWS
    assert {name: split.digest() for name, split in corpus.splits.items()} == OLD_DIGESTS
    assert corpus.record.as_json()["rule"] == "hash"


def test_the_old_rule_takes_the_smallest_hashes():
    rows = [(str(i),) for i in range(1000)]
    old = RowKey(0, strip=False)
    partition = hold_out_by_hash(rows, old, "here")
    smallest = np.argsort([old(row) for row in rows])[:50]
    assert {i for i in range(1000) if partition.valid.contains(rows[i])} == set(smallest.tolist())


def test_raises_on_unknown_rules(tmp_path):
    with pytest.raises(DataError, match=r"'newer' is not a known rule .* upgrade"):
        open_corpus(tmp_path, LABELLED, rule="newer")
