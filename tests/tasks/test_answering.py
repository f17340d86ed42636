"""The one pipeline of answers: the same for every task, whatever the batches are."""

import pytest
import torch

from saccade.attention import Attend
from saccade.errors import DecodingError, WatchError
from saccade.tasks import Task
from saccade.tasks._shared.answering import Example, batches_of
from tests.tiny_recipes import NAMES, tiny


@pytest.fixture(scope="module", params=NAMES)
def case(request):
    results = tiny(request.param)
    results.task.eval()
    return results


def options_of(task):
    return {} if task.generation is None else {"max_length": 4, "sample": False, "beam": 1}


def test_answers_do_not_depend_on_batches_or_order(case):
    task, options = case.task, options_of(case.task)
    inputs = (case.questions() * 3)[:7]
    counts = []
    together = task.predict(inputs, on_batch=counts.append, **options)
    assert sum(counts) == len(inputs)
    for batch_size in (1, 3):
        again = task.predict(inputs, batch_size=batch_size, **options)
        assert [str(answer) for answer in again] == [str(answer) for answer in together]
    backwards = task.predict(inputs[::-1], **options)[::-1]
    assert [str(answer) for answer in backwards] == [str(answer) for answer in together]


def test_attention_changes_no_answer_and_every_answer_has_a_record(case):
    task, options = case.task, options_of(case.task)
    inputs = case.questions()[:3]
    if not any(isinstance(part, Attend) for part in task.model.modules()):
        with pytest.raises(WatchError, match="no attention"):
            task.predict(inputs, attention=True, **options)
        return
    plain = task.predict(inputs, **options)
    watched = task.predict(inputs, attention=True, **options)
    assert [str(answer) for answer in watched] == [str(answer) for answer in plain]
    assert all(answer.attention.layers for answer in watched)
    assert all(answer.attention is None for answer in plain)


def test_wrong_calls_are_rejected(case):
    [given, *_] = case.questions()
    with pytest.raises(DecodingError, match="batch_size must be at least 1, got 0"):
        case.task.predict([given], batch_size=0)
    with pytest.raises(DecodingError, match=r"option.*'heat'|'heat'.*option"):
        case.task.predict([given], heat=3)
    assert case.task.predict([]) == []
    for one in ("one text", b"bytes of an image"):
        with pytest.raises(DecodingError, match="put it into a list"):
            case.task.predict(one)


def test_no_task_has_a_predict_of_its_own(case):
    assert type(case.task).predict is Task.predict


def test_no_gradients_are_kept(case):
    before = torch.is_grad_enabled()
    case.task.predict(case.questions()[:1], **options_of(case.task))
    assert torch.is_grad_enabled() is before
    assert all(parameter.grad is None for parameter in case.task.parameters())


def test_batches_hold_equal_groups_and_similar_lengths_the_longest_first():
    sizes = [(3, "a"), (9, "a"), (5, "b"), (8, "a"), (0, "a"), (7, "b")]
    examples = [
        Example(number=i, length=length, group=group, blank=not length)
        for i, (length, group) in enumerate(sizes)
    ]
    assert batches_of(examples, 2) == [[1, 3], [5, 2], [0]]
    assert batches_of(examples, 9) == [[1, 3, 0], [5, 2]]
    assert batches_of([], 2) == []
