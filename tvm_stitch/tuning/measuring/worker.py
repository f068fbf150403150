"""A measuring process behind a pipe: a JSON message a line in, a JSON answer a line out.

Started as `python -m tvm_stitch.tuning.measuring.worker`. What TVM or a compiler prints goes to
standard error. It ends with its parent, even in the middle of a kernel that hangs.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

PARENT_SECONDS = 1.0


def main() -> int:
    """Answer until there are no more messages."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    from tvm_stitch.tuning.measuring.handler import Handler

    handler = Handler()
    for line in sys.stdin:
        answers.write(json.dumps(handler.answer(json.loads(line))) + "\n")
        answers.flush()
    return 0


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
