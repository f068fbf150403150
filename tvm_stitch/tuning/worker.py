"""A measuring process behind a pipe: a JSON message a line in, a JSON answer a line out.

Started as `python -m tvm_stitch.tuning.worker`. What TVM or a compiler prints goes to standard
error.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> int:
    """Answer until there are no more messages."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    from tvm_stitch.tuning.handler import Handler

    handler = Handler()
    for line in sys.stdin:
        answers.write(json.dumps(handler.answer(json.loads(line))) + "\n")
        answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
