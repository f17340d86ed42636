"""A recipe is chosen by the columns and the size of the data, and the reason is given."""

import pytest
from PIL import Image

from saccade.errors import DataError
from saccade.training import choice
from saccade.training import recipe as recipes
from saccade.training.choice import RULES, choose_recipe, fitting_tasks
from saccade.training.speed import epochs_within


def table(path, header, rows):
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def pairs(path, count=20):
    rows = [f"a sentence number {i}\tune phrase numéro {i}" for i in range(count)]
    return table(path, "source\ttarget", rows)


def labelled(path, labels=("a", "b"), count=20):
    rows = [f"a sentence number {i}\t{labels[i % len(labels)]}" for i in range(count)]
    return table(path, "text\tlabel", rows)


def images(folder, mode="L", size=(28, 28), count=3):
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            colour = 80 * number if mode == "L" else (80 * number, 0, 200)
            Image.new(mode, size, colour).save(folder / name / f"{number}.png")
    return folder


def test_pairs(tmp_path):
    chosen = choose_recipe(pairs(tmp_path / "x.tsv"))
    assert (chosen.recipe, chosen.task, chosen.changes) == ("transformer-tiny", "text_to_text", ())
    assert chosen.reason == (
        "recipe transformer-tiny, chosen because the data has the columns source and target and "
        "20 rows, fewer than 100 000"
    )


def test_many_pairs(tmp_path, monkeypatch):
    monkeypatch.setattr(choice, "LARGE_PAIRS", 20)
    assert choose_recipe(pairs(tmp_path / "x.tsv")).recipe == "transformer-small"


def test_a_large_recipe_that_reads_too_little_in_the_minutes_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(choice, "LARGE_PAIRS", 20)
    speeds = []

    def epochs_within(recipe, train, minutes):
        speeds.append((recipe.options.model.dim, train.count(), minutes))
        return 0.08 * minutes

    monkeypatch.setattr(choice, "epochs_within", epochs_within)
    path = pairs(tmp_path / "x.tsv")
    chosen = choose_recipe(path, changes=["training.minutes=3"])
    assert chosen.recipe == "transformer-tiny"
    assert chosen.reason == (
        "recipe transformer-tiny, chosen because the data has the columns source and target and "
        "20 rows; in 3 minutes the larger recipe transformer-small would read them only 0.24 times "
        "here, fewer than 3"
    )
    assert speeds == [(256, 20, 3.0)]
    assert choose_recipe(path, changes=["training.minutes=60"]).recipe == "transformer-small"
    assert choose_recipe(path, changes=["training.minutes=20"], processes=2).recipe == (
        "transformer-small"
    )


def test_the_epochs_of_a_budget_are_measured(tmp_path):
    [task] = (task for task in fitting_tasks(pairs(tmp_path / "x.tsv")) if len(task.columns) == 2)
    train = task.corpus.splits["train"]
    recipe = recipes.load("transformer-tiny", ["model.dim=16", "training.batch_tokens=64"])
    assert epochs_within(recipe, train, 10.0) > 10 * epochs_within(recipe, train, 0.1) > 0


def test_many_images_and_few_minutes(tmp_path, monkeypatch):
    monkeypatch.setattr(choice, "LARGE_IMAGES", 5)
    monkeypatch.setattr(choice, "epochs_within", lambda recipe, train, minutes: minutes)
    images(tmp_path)
    assert choose_recipe(tmp_path, changes=["training.minutes=1"]).recipe == "cnn-small"
    assert choose_recipe(tmp_path, changes=["training.minutes=5"]).recipe == "vit-tiny"


def test_many_pairs_on_an_accelerator(tmp_path, monkeypatch):
    monkeypatch.setattr(choice, "HUGE_PAIRS", 20)
    assert choose_recipe(pairs(tmp_path / "x.tsv")).recipe == "transformer-tiny"
    monkeypatch.setattr(choice.Facts, "gpu", True)
    assert choose_recipe(pairs(tmp_path / "x.tsv")).recipe == "transformer-base"


def test_tagged_words(tmp_path, monkeypatch):
    path = tmp_path / "x.conll"
    path.write_text("Ann\tB-PER\nsings\tO\n\nBob\tB-PER\n")
    chosen = choose_recipe(path)
    assert (chosen.recipe, chosen.task) == ("rnn-tagger", "tagging")
    assert "the columns words and tags and 2 rows" in chosen.reason
    monkeypatch.setattr(choice, "LARGE_TAGS", 2)
    assert choose_recipe(path).recipe == "transformer-tagger"
    assert choose_recipe("builtin:entities").task == "tagging"
    path.write_text("Ann\nsings\n")
    with pytest.raises(DataError, match=r"^\S*x\.conll:1: expected at least 2 columns"):
        choose_recipe(path)


def test_parallel_text_is_a_pair_and_not_a_label(tmp_path):
    (tmp_path / "train.en").write_text("one day\ntwo days\n")
    (tmp_path / "train.fr").write_text("un jour\ndeux jours\n")
    assert choose_recipe(tmp_path).recipe == "transformer-tiny"
    assert choose_recipe(tmp_path, pair="fr-en").recipe == "transformer-tiny"


def test_words_spelled_in_few_symbols(tmp_path):
    rows = [f"{word}\t{' '.join(word.upper())}" for word in ("cat", "dog", "bird", "owl")]
    assert choose_recipe(table(tmp_path / "x.tsv", "word\tpronunciation", rows)).recipe == (
        "pronounce"
    )


def test_sequences_of_letters():
    assert choose_recipe("builtin:copy").recipe == "reverse"


def test_labels(tmp_path):
    assert choose_recipe(labelled(tmp_path / "x.tsv")).recipe == "bert-mini"


def test_numbers(tmp_path):
    chosen = choose_recipe(labelled(tmp_path / "x.tsv", ("0.5", "2")))
    assert chosen.recipe == "bert-mini"
    assert "the labels are numbers" in chosen.reason


def test_pairs_with_a_label_are_classified(tmp_path):
    rows = ["one\ttwo\ta", "three\tfour\tb"]
    path = table(tmp_path / "x.tsv", "sentence1\tsentence2\tlabel", rows)
    chosen = choose_recipe(path)
    assert chosen.recipe == "bert-mini"
    assert "text and text_pair and label" in chosen.reason


def test_plain_text(tmp_path, monkeypatch):
    (tmp_path / "book.txt").write_text("It was a dark and stormy night.\n" * 20)
    assert choose_recipe(tmp_path / "book.txt").recipe == "gpt-char"
    monkeypatch.setattr(choice, "LARGE_TEXT", 100)
    assert choose_recipe(tmp_path / "book.txt").recipe == "gpt-mini"


def test_chinese_text_needs_subwords(tmp_path):
    (tmp_path / "book.txt").write_text("天地玄黃宇宙洪荒\n" * 20)
    assert choose_recipe(tmp_path / "book.txt").recipe == "gpt-mini"


def test_grey_images(tmp_path, monkeypatch):
    chosen = choose_recipe(images(tmp_path))
    assert (chosen.recipe, chosen.changes) == ("cnn-small", ())
    monkeypatch.setattr(choice, "LARGE_IMAGES", 5)
    assert choose_recipe(tmp_path).recipe == "vit-tiny"


def test_colour_images(tmp_path, monkeypatch):
    chosen = choose_recipe(images(tmp_path, "RGB", (90, 60)))
    assert chosen.recipe == "cnn-small"
    assert {"model.channels=3", "image.size=64"} <= set(chosen.changes)
    assert recipes.load(chosen.recipe, chosen.changes).task == chosen.task
    kept = choose_recipe(tmp_path, changes=["image.size=32"])
    assert "image.size=64" not in kept.changes
    monkeypatch.setattr(choice, "LARGE_IMAGES", 5)
    assert choose_recipe(tmp_path).recipe == "vit-small"


def test_captions_need_no_pretrained_weights(tmp_path):
    Image.new("RGB", (9, 9)).save(tmp_path / "a.png")
    path = table(tmp_path / "x.tsv", "image\tcaption", ["a.png\ta dark square"])
    chosen = choose_recipe(path)
    assert chosen.recipe == "caption-attention"
    assert "model.encoder.kind=resnet" in chosen.changes
    assert recipes.load(chosen.recipe, chosen.changes).task == chosen.task
    assert choose_recipe(path, changes=["model.encoder.weights=x.safetensors"]).changes == ()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.recipe)
def test_rules_name_built_in_recipes(rule):
    assert rule.recipe in recipes.names()


def test_widest_task_comes_first(tmp_path):
    tasks = fitting_tasks(labelled(tmp_path / "x.tsv"))
    assert tasks[0].name == "text_classification"
    assert {"language_modeling", "masked_language_modeling"} <= {task.name for task in tasks}


def test_unknown_columns_raise_with_what_is_expected(tmp_path):
    path = table(tmp_path / "x.csv", "a,b,c", ["1,2,3"])
    with pytest.raises(DataError, match=r"none of these columns: .*text, label.*--columns"):
        choose_recipe(path)


def test_a_text_beside_unknown_columns_is_not_taken_for_a_language_model(tmp_path):
    path = table(tmp_path / "x.tsv", "text\tcoarse\tfine", ["one\ta\tb", "two\tb\tc"])
    with pytest.raises(DataError, match="If coarse is the label, add --columns label=coarse"):
        choose_recipe(path)
    assert choose_recipe(path, columns={"label": "coarse"}).recipe == "bert-mini"


def test_a_table_without_a_header_is_not_taken_for_running_text(tmp_path):
    path = table(tmp_path / "x.txt", "one\tun", ["two\tdeux", "three\ttrois"])
    with pytest.raises(DataError, match="add --columns source=1,target=2"):
        choose_recipe(path)
    chosen = choose_recipe(path, columns={"source": "1", "target": "2"})
    assert chosen.recipe == "transformer-tiny"


def test_missing_data_raises_its_own_error(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.csv does not exist"):
        choose_recipe(tmp_path / "nothing.csv")


def test_an_identifier_is_not_proposed_as_the_label(tmp_path):
    path = table(tmp_path / "x.csv", "id,text,kind,date", ["1,one,a,x", "2,two,b,y"])
    with pytest.raises(DataError, match="If kind is the label, add --columns label=kind"):
        choose_recipe(path)


def test_a_repeated_column_is_named(tmp_path):
    path = table(tmp_path / "x.csv", "text,label,label", ["one,a,a", "two,b,b"])
    with pytest.raises(DataError, match='has several columns named "label"; rename all but one'):
        choose_recipe(path)


def test_a_split_without_the_columns_of_training_is_named(tmp_path):
    table(tmp_path / "train.csv", "text,label", ["one,a", "two,b"])
    table(tmp_path / "test.csv", "text,remark", ["one,a", "two,b"])
    with pytest.raises(DataError, match=r'test\.csv has no column "label"'):
        choose_recipe(tmp_path)


def test_usual_names_of_texts_and_labels_are_known(tmp_path):
    path = table(tmp_path / "x.csv", "id,tweet,sentiment", ["1,one,a", "2,two,b"])
    assert choose_recipe(path).task == "text_classification"
