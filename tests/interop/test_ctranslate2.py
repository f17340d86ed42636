"""CTranslate2 gives the answers of our models, or raises for those it cannot run."""

import json
import math

import ctranslate2
import numpy as np
import pytest
import torch

from saccade.decoding import GenerationConfig, GenerationRequest
from saccade.errors import InteropError
from saccade.interop import ctranslate2 as ours
from saccade.interop.ctranslate2 import checking, writing
from saccade.interop.ctranslate2.vocabulary import TokenNames
from saccade.text import Tokenizer
from tests.engines import tiny

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
GREEDY = GenerationConfig()


def both(**options) -> list[str]:
    """The same changes for reader and writer."""
    return [
        f"model.{side}.{key}={x}" for side in ("encoder", "decoder") for key, x in options.items()
    ]


def position(kind: str, **options) -> str:
    rest = "".join(f", {key} = {x}" for key, x in options.items())
    return f"{{ kind = '{kind}'{rest} }}"


VARIANTS = {
    "pre": [],
    "post": both(norm_order="post"),
    "post and pre": ["model.encoder.norm_order=post"],
    "two vocabularies": [*tiny.SEPARATE],
    "output of its own": ["model.tie_output=false", "model.output_bias=true"],
    "not scaled": ["model.scale_embedding=false", "model.encoder.stem_norm=true"],
    "eps": both(norm_eps=0.01),
    "dot": both(score="{ kind = 'dot' }"),
    "halves": both(position=position("sinusoidal", layout="'halves'")),
    "learned": both(position=position("learned", length=40)),
    "rotary": both(position=position("rotary")),
    "rotary in halves": both(position=position("rotary", layout="'halves'")),
    "relative": both(position=position("relative", max_distance=3)),
    "relative and dot": both(
        position=position("relative", max_distance=3), score="{ kind = 'dot' }"
    ),
    "buckets": both(position=position("buckets", num_buckets=6, max_distance=5)),
    "buckets and dot": both(
        position=position("buckets", num_buckets=6, max_distance=5), score="{ kind = 'dot' }"
    ),
    "none": both(position=position("none")),
    "one for all heads": both(num_kv_heads=1),
    "groups of heads": both(num_kv_heads=2),
    "groups, rotary": both(num_kv_heads=2, position=position("rotary")),
    "groups, relative": both(num_kv_heads=2, position=position("relative", max_distance=3)),
    **{name: both(activation=name) for name in ("gelu", "gelu_tanh", "silu", "tanh")},
    "rms": both(norm="rms"),
    "rms, post": both(norm="rms", norm_order="post"),
    "gated": both(feed_forward="gated", activation="silu"),
    "no bias": both(bias="false"),
    "narrow heads": both(head_dim=6, position=position("rotary", base=100.0)),
    "wide heads": both(head_dim=24),
    "full heads": both(head="full"),
    "qk_norm": ["model.encoder.qk_norm=true"],
    "all": both(norm="rms", feed_forward="gated", bias="false", num_kv_heads=2),
}


@pytest.fixture
def written(tmp_path):
    """`written(task)`: the task as an engine, through a folder."""

    def write(task, quantization: str = "float32"):
        folder = tmp_path / f"out-{quantization}"
        folder.mkdir()
        ours.write_folder(task, folder, quantization)
        return ours.open_engine(task, folder, quantization)

    return write


def request(task, *, longest: int = 12, rows: int = 5, **options) -> GenerationRequest:
    return GenerationRequest(
        limits=task.describe().writes.limits(longest),
        options=GenerationConfig(**options),
        rows=list(range(rows)),
    )


def allowed(task, logits):
    """Log-probabilities among what may be written."""
    logits[..., list(task.describe().writes.limits(9).forbidden)] = -torch.inf
    return logits.log_softmax(-1)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_translators_equal_the_model(tmp_path, written, changes):
    task = tiny.translator(tmp_path / "run", *changes)
    engine = written(task)
    sources = task.source.encode_batch(tiny.SENTENCES)
    generation = request(task)
    theirs, expected = (
        engine.generate(sources, generation),
        task.engine.generate(sources, generation),
    )
    assert [[x.tokens for x in row] for row in theirs] == [
        [x.tokens for x in row] for row in expected
    ]
    assert [row[0].finished for row in theirs] == [row[0].finished for row in expected]
    batch = task.force(tiny.SENTENCES, tiny.SENTENCES[::-1])
    log_p = task.model(batch.source, batch.target[:, :-1], batch.source_mask).log_softmax(-1)
    names = TokenNames(task.target)
    targets = task.target.encode_batch(tiny.SENTENCES[::-1])
    scored = engine.program.score_batch(
        [TokenNames(task.source).of(ids) for ids in sources], [names.of(ids) for ids in targets]
    )
    for row, ids, result in zip(log_p, targets, scored, strict=True):
        expected = row[range(len(ids) + 1), [*ids, task.target.stop]]
        torch.testing.assert_close(torch.tensor(result.log_probs), expected.detach(), **CLOSE)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 0.6])
def test_scores_of_beams_equal_our_formula(tmp_path, written, length_penalty):
    """Scores are those of our formula, the stop counted, among what may be written."""
    task = tiny.translator(tmp_path / "run")
    engine = written(task)
    sources = task.source.encode_batch(tiny.SENTENCES)
    generation = request(task, beam=4, num_best=3, length_penalty=length_penalty)
    for source, hypotheses in zip(sources, engine.generate(sources, generation), strict=True):
        assert len(hypotheses) == 3
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
        for one in hypotheses:
            ids = [*one.tokens, task.target.stop] if one.finished else [*one.tokens]
            target = torch.tensor([[task.target.start, *ids[:-1]]])
            source_ids = torch.tensor([[*source, task.source.stop]])
            with torch.no_grad():
                log_p = allowed(task, task.model(source_ids, target))[0]
            total = float(log_p[range(len(ids)), ids].sum())
            assert one.log_probability == pytest.approx(total, abs=1e-3)
            assert one.score == pytest.approx(total / len(ids) ** length_penalty, abs=1e-3)
            assert not set(one.tokens) & {*generation.limits.forbidden, task.target.stop}


def test_beams_equal_ours_at_a_fixed_length(tmp_path, written):
    """Where all beams are cut at one length, the different rules of ending play no part."""
    task = tiny.translator(tmp_path / "run", "model.output_bias=true")
    with torch.no_grad():  # neither a stop nor a control token is ever likely
        task.model.output.bias[:7] = -30.0
    engine = written(task)
    sources = task.source.encode_batch(tiny.SENTENCES)
    generation = request(task, longest=5, beam=3, num_best=3)
    theirs, expected = (
        engine.generate(sources, generation),
        task.engine.generate(sources, generation),
    )
    for its, mine in zip(theirs, expected, strict=True):
        assert [x.tokens for x in its] == [x.tokens for x in mine]
        assert [x.score for x in its] == pytest.approx([x.score for x in mine], abs=1e-4)


def test_keeps_to_the_maximum_length(tmp_path, written):
    task = tiny.translator(tmp_path / "run", "model.output_bias=true")
    with torch.no_grad():
        task.model.output.bias[task.target.stop] = 50.0
    engine = written(task)
    [[hypothesis]] = engine.generate([[8, 9]], request(task, rows=1))
    assert hypothesis.tokens == ()
    assert hypothesis.finished
    assert hypothesis.score == pytest.approx(0.0, abs=1e-4)
    with torch.no_grad():
        task.model.output.bias[task.target.stop] = -50.0
    folder = tmp_path / "endless"
    folder.mkdir()
    ours.write_folder(task, folder, "float32")
    [[hypothesis]] = ours.open_engine(task, folder, "float32").generate(
        [[8]], request(task, longest=6, rows=1)
    )
    assert len(hypothesis.tokens) == 6
    assert not hypothesis.finished
    assert hypothesis.score == pytest.approx(hypothesis.log_probability / 6)


PLACES = {
    "learned": [],
    "sinusoidal": ["model.decoder.position={ kind = 'sinusoidal' }"],
    "rotary": ["model.decoder.position={ kind = 'rotary' }", "model.decoder.num_kv_heads=2"],
    "relative": ["model.decoder.position={ kind = 'relative', max_distance = 4 }"],
    "none": ["model.decoder.position={ kind = 'none' }", "model.decoder.norm_order=post"],
    "open block": [
        "model.decoder.position={ kind = 'rotary', layout = 'halves', base = 100.0 }",
        "model.decoder.norm=rms",
        "model.decoder.feed_forward=gated",
        "model.decoder.bias=false",
        "model.decoder.qk_norm=true",
        "model.decoder.head_dim=6",
    ],
}


@pytest.mark.parametrize("changes", PLACES.values(), ids=PLACES)
def test_language_models_equal_the_model(tmp_path, written, changes):
    """Also where the text outgrows the block several times."""
    task = tiny.language_model(tmp_path / "run", *changes)
    engine = written(task)
    contexts = [[9, 30, 12, 7], [200, 100, 50, 25], [11, 11, 12, 12]]
    for longest in (1, 7, 21, 22, 60):
        generation = request(task, longest=longest, rows=3)
        theirs, expected = (
            engine.generate(contexts, generation),
            task.engine.generate(contexts, generation),
        )
        assert [row[0].tokens for row in theirs] == [row[0].tokens for row in expected]
    logits = torch.from_numpy(np.array(engine.program.forward_batch(contexts)))
    with torch.no_grad():
        torch.testing.assert_close(logits, task.model(torch.tensor(contexts)), **CLOSE)


def test_a_context_longer_than_the_block(tmp_path, written):
    task = tiny.language_model(tmp_path / "run")
    engine = written(task)
    context = [7 + i * 13 % 200 for i in range(40)]
    generation = request(task, rows=1)
    [[hypothesis]], [[expected]] = (
        one.generate([context], generation) for one in (engine, task.engine)
    )
    assert hypothesis.tokens == expected.tokens


def test_reports_what_it_lacks(tmp_path, written):
    task = tiny.translator(tmp_path / "run")
    engine = written(task)
    assert engine.lacks([[8]], request(task)) is None
    assert "sampled answers" in engine.lacks([[8]], request(task, sample=True))
    assert engine.lacks([[8]], request(task, sample=True, temperature=0.0)) is None
    assert "a beam of 150" in engine.lacks([[8]], request(task, beam=150))
    assert "texts of more than 1024 tokens" in engine.lacks([[8]], request(task, longest=1025))
    assert "texts of more than 1024 tokens" in engine.lacks([[8] * 2000], request(task))


def test_beams_of_a_language_model_must_fit_the_block(tmp_path, written):
    task = tiny.language_model(tmp_path / "run")
    engine = written(task)
    assert engine.lacks([[8] * 4], request(task, longest=21, beam=2)) is None
    assert "the block of 24" in engine.lacks([[8] * 4], request(task, longest=22, beam=2))
    [[hypothesis, _]] = engine.generate(
        [[8] * 4], request(task, longest=21, beam=2, num_best=2, rows=1)
    )
    assert len(hypothesis.tokens) <= 21


def test_int8_does_not_change_our_weights(tmp_path, written):
    task = tiny.translator(tmp_path / "run")
    before = {name: value.clone() for name, value in task.model.state_dict().items()}
    engine = written(task, "int8")
    assert engine.name == "ctranslate2-int8"
    for name, value in task.model.state_dict().items():
        assert torch.equal(value, before[name]), name
    result = ours.check(task, engine)
    assert result.compared == checking.RANDOM_INPUTS
    assert 0.0 <= result.tokens <= 1.0
    written(task, "float32")
    sizes = [(tmp_path / f"out-{x}" / "model.bin").stat().st_size for x in ("int8", "float32")]
    assert sizes[0] < 0.8 * sizes[1]  # positions, which are most of a model as small, stay float32


# --- errors


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["model.encoder.norm=batch"], 'model.encoder.norm is "batch", and it has layer and rms'),
        (["model.decoder.qk_norm=true"], "model.decoder.qk_norm is true, and it has no such norm"),
        (
            ["model.encoder.activation=relu_squared"],
            'model.encoder.activation is "relu_squared", and it has relu, gelu',
        ),
        (
            ["model.decoder.score={ kind = 'additive' }"],
            'model.decoder.score.kind is "additive", and it has scaled_dot and dot',
        ),
        (
            ["model.encoder.position={ kind = 'complex' }"],
            'model.encoder.position.kind is "complex", and it has none, sinusoidal, learned',
        ),
        (
            [
                "model.decoder.position={ kind = 'sinusoidal', fuse = 'concat', width = 4 }",
                "model.tie_output=false",
                *tiny.SEPARATE,
            ],
            'model.decoder.position.fuse is "concat", and it can only add positions',
        ),
        (["model.encoder.norm_eps=0.1"], "norm_eps differ, and it has one for both"),
    ],
)
def test_raises_on_options_that_it_lacks(tmp_path, changes, message):
    task = tiny.translator(tmp_path / "run", *changes)
    with pytest.raises(InteropError) as refused:
        ours.require_runnable(task)
    assert message in str(refused.value)


def test_raises_on_an_unknown_quantization(tmp_path):
    task = tiny.translator(tmp_path / "run")
    with pytest.raises(InteropError, match="cannot be written in 'int3'; it can be in: int8, flo"):
        ours.write_task(task, tmp_path / "out", "int3")


# --- the folder


def test_the_folder_works_without_saccade(tmp_path):
    """CTranslate2's own translator answers by it, without us."""
    task = tiny.translator(tmp_path / "run")
    folder = tmp_path / "out"
    folder.mkdir()
    assert ours.write_task(task, folder, "float32").startswith("24 of 24 greedy answers")
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json",
        "model.bin",
        "shared_vocabulary.json",
        "tokenizer.json",
    ]
    config = json.loads((folder / "config.json").read_text())
    assert config["add_source_eos"] is True
    assert config["decoder_start_token"] == "⟨start⟩"
    vocabulary = json.loads((folder / "shared_vocabulary.json").read_text())
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    translator = ctranslate2.Translator(str(folder), intra_threads=1)
    never = [[vocabulary[id]] for id in task.describe().writes.limits(9).forbidden]
    for text in tiny.SENTENCES:
        [result] = translator.translate_batch(
            [[vocabulary[id] for id in tokenizer.encode(text)]],
            beam_size=1,
            max_decoding_length=12,
            min_decoding_length=0,
            suppress_sequences=never,
        )
        ids = [vocabulary.index(name) for name in result.hypotheses[0]]
        assert tokenizer.decode(ids) == task.predict([text], max_ratio=100.0)[0].text
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("tmp")] == []


def test_writes_two_vocabularies(tmp_path):
    task = tiny.translator(tmp_path / "run", *tiny.SEPARATE)
    folder = tmp_path / "out"
    folder.mkdir()
    ours.write_folder(task, folder, "float32")
    names = {path.name for path in folder.iterdir()}
    assert {"source_vocabulary.json", "target_vocabulary.json"} <= names
    assert {"tokenizer.source.json", "tokenizer.target.json"} <= names


def test_raises_on_a_fault_in_the_written_weights(tmp_path, monkeypatch):
    task = tiny.translator(tmp_path / "run")
    folder = tmp_path / "out"
    folder.mkdir()

    def faulty(model, config, places):
        spec = right(model, config, places)
        spec.decoder.layer[0].ffn.linear_1.weight *= 0.5
        return spec

    right = writing.translator_spec
    monkeypatch.setattr(writing, "translator_spec", faulty)
    with pytest.raises(InteropError, match="what was written does not give the same answers: "):
        ours.write_task(task, folder, "int8")


def test_a_tie_counts_as_the_same_answer(tmp_path):
    """Where two tokens are as likely, either may be written."""
    task = tiny.translator(tmp_path / "run")
    with torch.no_grad():
        task.model.output.weight[20] = task.model.output.weight[30]

    class Other:
        name = "other"

        def length_group(self, length):
            return 0

        def generate(self, inputs, request):
            swap = {20: 30, 30: 20}
            return [
                [
                    type(x)(tuple(swap.get(t, t) for t in x.tokens), 0.0, 0.0, x.finished)
                    for x in row
                ]
                for row in task.engine.generate(inputs, request)
            ]

    assert ours.check(task, Other()).exact


def test_raises_on_a_crash_in_the_trial(tmp_path, monkeypatch):
    task = tiny.translator(tmp_path / "run")
    folder = tmp_path / "out"
    folder.mkdir()
    ours.write_folder(task, folder, "int8")
    ours.require_survival(task, folder, "int8")
    monkeypatch.setattr(checking, "_TRIAL", "import os; os.abort()")
    died = "was tried in a process, which died: it ended with -6"
    with pytest.raises(ours.DiedError, match=died):
        ours.require_survival(task, folder, "int8")
    monkeypatch.setattr(checking, "_TRIAL", "import os; os.kill(os.getpid(), 9)")
    with pytest.raises(InteropError, match="it ended with -9") as killed:  # by somebody
        ours.require_survival(task, folder, "int8")
    assert not isinstance(killed.value, ours.DiedError)


def test_a_check_prints_its_numbers():
    check = ours.Check(compared=8, same=6, tokens=0.98125, quality={"bleu": (34.561, 34.2)})
    assert str(check) == (
        "6 of 8 greedy answers are those of the model itself; 98.1% of the tokens; "
        "bleu 34.56 -> 34.2"
    )
    assert math.isclose(check.tokens, 0.98125)
