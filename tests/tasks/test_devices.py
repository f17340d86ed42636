"""Every task computes on the device of its model."""

import pytest
import torch

from saccade.attention import Attend
from saccade.decoding import beam
from saccade.tasks import Streams
from saccade.tasks._shared.classifier import Classifier
from saccade.tasks._shared.seq2seq import WritingTask
from saccade.tasks.measures import with_attention
from saccade.training.optim import Average, AverageConfig
from saccade.training.run import tensors_of
from saccade.training.tensor_files import serialized
from tests.cuda_autocast import VARIANTS
from tests.other_device import DEVICE, Elsewhere, MixedDevicesError, OtherDevice
from tests.tiny_recipes import NAMES, tiny

DISTINCT = [
    "bert-mini",
    "bert-mini-masked",
    "caption-attention",
    "caption-rnn",
    "cnn-attention",
    "cnn-small",
    "gpt-mini",
    "luong",
    "rnn",
    "rnn-attention",
    "rnn-attention-classifier",
    "rnn-classifier",
    "transformer-tiny",
    "vit-tiny",
]
"""Recipes that differ in more than their sizes."""


def loss(case, device):
    return case.task(case.batch().to(device)).total


def answers(task, inputs, *ways):
    """Return the answers of a task as text, with its own and with other options."""
    predictions = task.predict(inputs)
    for options in ways if task.generation is not None else ():
        predictions += task.predict(inputs, **options)
    return [str(answer) for answer in predictions]


def contents(task):
    """The weights as they are saved; moving a model here unties what it shares."""
    _, *tensors = serialized(tensors_of(task.model))
    return {bytes(tensor) for tensor in tensors}


@pytest.mark.parametrize("name", DISTINCT)
def test_a_task_answers_and_learns_on_another_device_as_on_the_cpu(name):
    case = tiny(name)
    task, inputs = case.task.eval(), case.questions()[:2]
    ways = {"beam": 2, "max_length": 3}, {"sample": True, "beam": 1, "top_p": 0.9, "max_length": 3}
    with torch.no_grad():
        expected, texts = loss(case, "cpu").item(), answers(task, inputs, *ways)
    weights = contents(task)
    with OtherDevice():
        task.to(DEVICE)
        assert all(isinstance(p.data, Elsewhere) for p in task.model.parameters())
        with torch.no_grad():
            assert loss(case, DEVICE).item() == pytest.approx(expected, rel=1e-4)
        assert answers(task, inputs, *ways) == texts
        task.evaluate(case.items[:2], quick=True)
        assert contents(task) == weights
        task.train()
        loss(case, DEVICE).backward()
        learned = [p for p in task.model.parameters() if p.grad is not None]
        assert learned
        assert all(p.grad.device == DEVICE for p in learned)
        Average(AverageConfig(), task.model).after_update(0)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, *VARIANTS])
def test_streams_records_and_evaluations_work_on_another_device(name):
    case = tiny(*name.split())
    task, inputs = case.task.eval(), case.questions()
    ways = {"beam": 1, "sample": False}, {"beam": 3, "num_best": 2, "sample": False}
    with torch.no_grad():
        expected, texts = loss(case, "cpu").item(), answers(task, inputs, *ways)
        streamed = "".join(task.stream(inputs[0])) if isinstance(task, Streams) else ""
    with OtherDevice():
        task.to(DEVICE)
        with torch.no_grad():
            assert loss(case, DEVICE).item() == pytest.approx(expected, rel=1e-4)
        assert answers(task, inputs, *ways) == texts
        if isinstance(task, Streams):
            assert "".join(task.stream(inputs[0])) == streamed
        evaluation = task.evaluate(case.items)
        if any(isinstance(module, Attend) for module in task.model.modules()):
            for answer in task.predict(inputs, attention=True):
                assert answer.attention.weights
            if isinstance(task, WritingTask | Classifier):
                assert with_attention(task, evaluation).attention
        task.finish(case.examples)
        task.train()
        loss(case, DEVICE).backward()


def test_raises_on_a_tensor_left_on_the_cpu():
    """Show that the tests above can fail."""
    with OtherDevice():
        x = torch.ones(2, 3, device=DEVICE)
        assert (x * 2 + torch.tensor(1.0)).sum().item() == 18
        assert x[torch.tensor([0])].device == DEVICE
        assert torch.tensor([1.0], device=DEVICE).tolist() == [1.0]
        for mixed in (
            lambda: x + torch.ones(3),
            lambda: torch.cat((x, torch.ones(1, 3))),
            lambda: torch.where(torch.ones(3) > 0, x, x),
            lambda: torch.ones(3)[x[0].long() * 0],
            lambda: x.index_select(0, torch.tensor([0])),
        ):
            with pytest.raises(MixedDevicesError, match="same device"):
                mixed()
        with pytest.raises(TypeError, match="numpy"):
            x.numpy()


def test_raises_on_a_tensor_created_without_a_device(monkeypatch):
    def before(cls, first):
        return torch.zeros(1)

    code = before.__code__.replace(co_filename=beam.__file__)
    monkeypatch.setattr(before, "__code__", code)
    before(None, None)
    with OtherDevice(), pytest.raises(MixedDevicesError, match=r"beam\.py:\d+: zeros makes"):
        before(None, None)
