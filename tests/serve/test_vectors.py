"""Vectors over HTTP: JSON arrays, and uploads of .npy files without pickle (checklist I9)."""

import io

import numpy as np
import pytest

from saccade.data import sources
from saccade.training import recipe as recipes
from tests.serve.conftest import Build, send_request

SMALL = ("model.dim=16", "model.encoder.dim=12", "vectors.max_length=50")


def npy(array: np.ndarray, **options: bool) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


@pytest.fixture(scope="module")
def server(build: Build, tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    rows = []
    for number in range(6):
        np.save(folder / f"{number}.npy", np.random.default_rng(number).normal(size=(5, 40)))
        rows.append(f"{number}.npy\t{'ab'[number % 2]}")
    (folder / "train.tsv").write_text("\n".join(["vectors\tlabel", *rows, ""]))
    recipe = recipes.load("vector-classifier-rnn", SMALL)
    corpus = sources.open_corpus(folder, recipe.options.columns, valid_fraction=0.0)
    task = recipe.options.create(corpus.splits["train"]).eval()
    return build(others={"clips": task}, timeout=300.0)


CLIP = np.random.default_rng(9).normal(size=(60, 40)).astype(np.float32)


def test_json_and_uploads_give_the_same_answer(server):
    body = {"inputs": [CLIP.tolist()], "attention": True}
    as_json = send_request(server, "POST", "/v1/predict", json=body)
    assert as_json.status_code == 200, as_json.text
    files = [("vectors", ("clip.npy", npy(CLIP)))]
    upload = send_request(server, "POST", "/v1/predict", files=files)
    first, second = (r.json()["answers"][0] for r in (as_json, upload))
    assert first["label"] == second["label"]
    assert first["truncated"]
    assert first["attention"]["read"]["steps"]
    [entry] = send_request(server, "GET", "/v1/models").json()["data"]
    assert (entry["reads"], entry["task"]) == ("vectors", "vector_classification")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy(np.array([{}], object), allow_pickle=True), "pickled Python objects"),
        (b"PK\3\4", "got an .npz or zip file"),
        (npy(CLIP[:, :7]), "vectors of 7 numbers"),
        (npy(np.full((3, 40), np.inf)), "NaN or infinite"),
        (b"nonsense", "not a .npy file"),
    ],
)
def test_rejects_bad_uploads_with_one_line(server, content, message):
    files = [("vectors", ("clip.npy", content))]
    response = send_request(server, "POST", "/v1/predict", files=files)
    assert response.status_code == 422, response.text
    assert message in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("value", "message"),
    [([[1, 2], [3]], "ragged"), ("/etc/passwd", "base64"), (["a"], "list of vectors")],
)
def test_rejects_bad_json_with_one_line(server, value, message):
    response = send_request(server, "POST", "/v1/predict", json={"inputs": [value]})
    assert response.status_code == 422, response.text
    assert message in response.json()["error"]["message"]
