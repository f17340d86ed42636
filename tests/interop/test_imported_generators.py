"""T5 and Llama folders as runs: they answer, train on, run in engines, export and serve."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

import saccade
from saccade.errors import InteropError, RunError
from saccade.interop import export_task, huggingface
from saccade.interop.huggingface.task_export import require_exportable
from saccade.interop.huggingface.task_import import read_task
from saccade.serve import app
from saccade.serve.auth import Authorization
from saccade.serve.limits import RequestLimits
from saccade.serve.models import ModelRegistry, ServedModel
from saccade.serve.prometheus import ServerMetrics
from saccade.tasks import Task
from saccade.training import recipe as recipes
from saccade.training.console import Console
from saccade.training.run import Run
from tests.interop import test_llama, test_t5
from tests.onnx_export import without_shape_checks
from tests.serve.conftest import send_request

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
LETTERS = ["a b c", "ab abc g", "h", "d e f g h a b c"]


def t5_vocabulary(folder: Path) -> Backend:
    """Write a vocabulary like T5's: padding first, no start token, sentinels at the end."""
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((f"▁{x}", -2.0) for x in "abcdefgh")]
    pieces += [*((x, -3.0) for x in "abcdefgh"), ("▁", -4.0), ("ab", -2.5)]
    backend = Backend(models.Unigram(pieces, unk_id=2))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    special = ("<pad>", "</s>", "<unk>", "<extra_id_1>", "<extra_id_0>")
    backend.add_special_tokens([AddedToken(x, normalized=False) for x in special])
    backend.save(str(folder / "tokenizer.json"))
    return backend


def t5(folder: Path, **options: Any) -> Any:
    """Write a T5 with more rows than its vocabulary has tokens."""
    ids = {"pad_token_id": 0, "eos_token_id": 1}
    layers = {"num_decoder_layers": 2}  # transformers cannot generate with others than num_layers
    model = test_t5.reference(**{"vocab_size": 29, **ids, **layers, **options})
    model.save_pretrained(folder)
    assert t5_vocabulary(folder).get_vocab_size() == 23
    return model


def llama(folder: Path) -> Any:
    """Write a Llama with a vocabulary of letters."""
    names = ["<unk>", "<s>", "</s>", *(f"▁{x}" for x in "abcdefgh"), *"abcdefgh", "▁"]
    backend = Backend(models.BPE({x: i for i, x in enumerate(names)}, [], unk_token="<unk>"))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    backend.add_special_tokens([AddedToken(x, normalized=False) for x in names[:3]])
    model = test_llama.reference(vocab_size=len(names), num_key_value_heads=3)
    model.save_pretrained(folder)
    backend.save(str(folder / "tokenizer.json"))
    return model


def imported(folder: Path, out: Path) -> Task:
    read = read_task(folder)
    recipe = recipes.Recipe(read.task.name, read.options, recipes.FINE_TUNING)
    Run(out).create(recipe, read.task, {})
    return saccade.load(out)


def trained(recipe: str | Path, data: Path, out: Path, init: Path, *changes: str) -> Task:
    return saccade.train(
        recipe,
        data=data,
        out=out,
        init=init,
        max_steps=1,
        device="cpu",
        cache=out.parent / "cache",
        console=Console(quiet=True),
        changes=[
            "training.learning_rate=1e-30",
            "training.optim.weight_decay=0",
            "training.validate_items=2",
            "generation.max_length=6",
            *changes,
        ],
    )


def pairs(folder: Path) -> Path:
    rows = [f"{x} {y}\t{y} {x}\n" for x in "abcd" for y in "efgh"]
    path = folder / "pairs.tsv"
    path.write_text("source\ttarget\n" + "".join(rows))
    return path


def require_same_weights(one: Task, other: Task) -> None:
    before, after = one.model.state_dict(), other.model.state_dict()
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert torch.equal(after[name], value), name


def texts(answers: Any) -> list[str]:
    return [answer.text for answer in answers]


@pytest.mark.parametrize(
    "options", [{}, {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}]
)
def test_imported_t5_equals_transformers(options: dict[str, Any], folder: Path) -> None:
    """Its start token is a separate token here, and rows without a token are removed."""
    model, task = t5(folder, **options), read_task(folder).task
    assert task.name == "text_to_text"
    assert len(task.target) == 23 + 4  # start, cls, sep and mask
    assert task.config.model.encoder.position.kind == "buckets"
    batch = task.force(LETTERS, list(reversed(LETTERS)))
    target = batch.target[:, :-1].clone()
    with torch.no_grad():
        ours = task.model(batch.source, target, batch.source_mask)
        target[:, 0] = 0
        mask = batch.source_mask
        logits = model(batch.source, attention_mask=mask, decoder_input_ids=target).logits
    torch.testing.assert_close(ours[..., :23], logits[..., :23], **CLOSE)
    torch.testing.assert_close(ours[..., 23:], logits[..., :1].expand(-1, -1, 4), **CLOSE)
    for text, answer in zip(LETTERS, task.predict(LETTERS, beam=1, max_length=9), strict=True):
        source = torch.tensor([[*task.source.encode(text), 1]])
        [written] = model.generate(
            source, num_beams=1, max_length=10, suppress_tokens=[0, 2, *range(23, 29)]
        )
        written = [one for one in written[1:].tolist() if one < 21]
        assert task.target.decode(written) == answer.text


@pytest.mark.parametrize("beam", [1, 3])
def test_scores_with_a_cache_are_those_of_one_pass(beam: int, folder: Path) -> None:
    t5(folder)
    task = read_task(folder).task.eval()
    for text, answer in zip(LETTERS, task.predict(LETTERS, beam=beam), strict=True):
        batch = task.forced(task.prepare([text]), [list(answer.tokens)])
        with torch.no_grad():
            logits = task.model(batch.source, batch.target[:, :-1], batch.source_mask)
        scores = logits.log_softmax(-1).gather(-1, batch.target[:, 1:, None])[0, :, 0]
        written = scores if answer.finished else scores[:-1]  # without the stop token
        assert answer.score == pytest.approx(float(written.mean()), abs=1e-4)


def test_t5_trains_on_from_a_run_and_from_its_folder(folder: Path, tmp_path: Path) -> None:
    """With any recipe of one vocabulary, whose model is that of T5 then."""
    t5(folder)
    task, data = imported(folder, tmp_path / "run"), pairs(tmp_path)
    recipe = tmp_path / "run" / "recipe.toml"
    require_same_weights(task, trained(recipe, data, tmp_path / "a", tmp_path / "run"))
    again = trained("transformer-tiny", data, tmp_path / "b", folder)
    require_same_weights(task, again)
    assert again.target.to_string() == task.target.to_string()
    options = {"beam": 2, "max_length": 6}
    assert texts(again.predict(LETTERS, **options)) == texts(task.predict(LETTERS, **options))
    with pytest.raises(RunError, match="one vocabulary for both sides"):
        trained(
            "transformer-tiny",
            data,
            tmp_path / "c",
            folder,
            "text.target={ kind = 'word' }",
            "model.share_embeddings=false",
        )


def test_llama_trains_on_from_a_run_and_from_its_folder(folder: Path, tmp_path: Path) -> None:
    llama(folder)
    task, data = imported(folder, tmp_path / "run"), tmp_path / "text.txt"
    data.write_text("\n".join(f"{x} {y} {z}" for x in "abcd" for y in "efgh" for z in "abcd"))
    changes = ("text.block=24", "generation.sample=false")
    recipe = tmp_path / "run" / "recipe.toml"
    again = trained(recipe, data, tmp_path / "a", tmp_path / "run", *changes)
    require_same_weights(task, again)
    require_same_weights(task, trained("gpt-mini", data, tmp_path / "b", folder, *changes))
    options = {"temperature": 0.0, "max_length": 5}
    assert texts(again.predict(LETTERS, **options)) == texts(task.predict(LETTERS, **options))


@pytest.mark.slow
@pytest.mark.parametrize("family", [t5, llama])
def test_engines_and_the_server_give_the_same_answers(
    family: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_shape_checks(monkeypatch)
    family(folder)
    task = imported(folder, tmp_path / "run")
    options = {"beam": 1, "max_length": 5} | ({"temperature": 0.0} if family is llama else {})
    expected = texts(task.predict(LETTERS, **options))
    fast = saccade.load(tmp_path / "run", engine="ctranslate2-float32")
    assert texts(fast.predict(LETTERS, **options)) == expected
    export_task(task, "onnx", tmp_path / "onnx")  # raises unless its answers are the same
    metrics, limits = ServerMetrics(), RequestLimits(timeout=300.0)
    registry = ModelRegistry([ServedModel("m", fast, limits=limits, metrics=metrics)], metrics)
    opened = Authorization.for_address("127.0.0.1", token=None, open_paths=app.open_paths())
    server = app.build(registry, authorization=opened, limits=limits, metrics=metrics)
    try:
        body = {"inputs": LETTERS, **options}
        answers = send_request(server, "POST", "/v1/predict", json=body).json()["answers"]
    finally:
        server.models.close(5.0)
    assert texts(type("Answer", (), answer) for answer in answers) == expected


@torch.no_grad()
def test_an_exported_t5_is_read_by_transformers_and_again(folder: Path, tmp_path: Path) -> None:
    t5(folder)
    task = read_task(folder).task
    export_task(task, "huggingface", tmp_path / "out")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    assert type(model) is transformers.T5ForConditionalGeneration
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    read = tokenizer(LETTERS, return_tensors="pt", padding=True)
    written = model.generate(**read, num_beams=1, max_length=8)
    answers = [text.strip() for text in tokenizer.batch_decode(written, skip_special_tokens=True)]
    expected = task.predict(LETTERS, beam=1, max_length=7)
    assert answers == [answer.text.strip() for answer in expected]
    again = read_task(tmp_path / "out").task
    require_same_weights(task, again)
    assert huggingface.describe(tmp_path / "out").architecture == "T5ForConditionalGeneration"


def test_a_family_that_does_not_fit_names_those_that_do(folder: Path, tmp_path: Path) -> None:
    t5(folder)
    task = read_task(folder).task
    message = "cannot be written as 'marian'; it fits t5"
    with pytest.raises(InteropError, match=message):
        require_exportable(task, "marian")
    with pytest.raises(InteropError, match="cannot be written as 'mistral'; it fits t5"):
        export_task(task, "huggingface", tmp_path / "out", family="mistral")
    with pytest.raises(InteropError, match="--family is for huggingface"):
        export_task(task, "onnx", tmp_path / "out", family="t5")
    export_task(task, "huggingface", tmp_path / "out", family="t5")
    assert huggingface.read_config(tmp_path / "out")["model_type"] == "t5"
