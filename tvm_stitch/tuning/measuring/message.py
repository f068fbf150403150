"""What measuring processes are asked and what they answer: plain data, see handler."""

from typing import Any

Message = dict[str, Any]
