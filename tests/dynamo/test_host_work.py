"""What Python does where a part is called: little, and no more of it for what does not change."""

import sys
from collections import Counter

import pytest

torch = pytest.importorskip("torch")

from tvm_stitch.dynamo import part  # noqa: E402
from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import LLVM, Settings  # noqa: E402

# The part, its machine, and what of them is a function of its own; a comprehension is one as well,
# before Python 3.12.
MOST_FUNCTIONS = 10


def functions_of_a_call(monkeypatch, terms, *, dynamic=False):
    """The Python functions that the second call of a graph's only part enters."""

    def function(x, others):
        for other in others:
            x = torch.softmax(x + other, -1)
        return x, x + 1

    calls = []
    plain = part.Part.__call__

    def noted(self, *given):
        calls.append((self, given))
        return plain(self, *given)

    monkeypatch.setattr(part.Part, "__call__", noted)
    torch._dynamo.reset()
    others = [torch.randn(4) for _ in range(terms)]
    compiled = torch.compile(
        function, backend=GraphCompiler(Settings(device=LLVM)), dynamic=dynamic
    )
    with torch.no_grad():
        compiled(torch.randn(3, 4), others)
    monkeypatch.undo()
    ((called, given),) = calls
    entered = Counter()

    def note(frame, event, _argument):
        if event == "call":
            entered[frame.f_code.co_name] += 1

    sys.setprofile(note)
    try:
        called(*given)
    finally:
        sys.setprofile(None)
    return entered


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_call_enters_few_functions_of_python(monkeypatch, dynamic):
    few = functions_of_a_call(monkeypatch, 2, dynamic=dynamic)
    many = functions_of_a_call(monkeypatch, 20, dynamic=dynamic)
    assert few == many
    assert many.total() <= MOST_FUNCTIONS, many
