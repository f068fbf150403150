"""One PTX instruction, as its translators take it apart.

In: the opcode's pieces, and operands that are C++ expressions already.
"""

from __future__ import annotations

from dataclasses import dataclass

TYPES = {
    "b8": "uint8_t", "u8": "uint8_t", "s8": "int8_t", "b16": "uint16_t", "u16": "uint16_t",
    "s16": "int16_t", "b32": "uint32_t", "u32": "uint32_t", "s32": "int32_t", "f32": "float",
    "b64": "uint64_t", "u64": "uint64_t", "s64": "int64_t", "f64": "double", "f16": "half",
    "bf16": "nv_bfloat16", "f16x2": "half2", "bf16x2": "nv_bfloat162", "b128": "uint4",
}  # fmt: skip


@dataclass(frozen=True)
class Instruction:
    """An opcode and its operands."""

    name: str
    parts: tuple[str, ...]  # the opcode's pieces after its name
    operands: tuple[str, ...]  # C++ expressions

    @property
    def type(self) -> str:
        """The C++ type that it computes in."""
        for part in reversed(self.parts):
            if part in TYPES:
                return TYPES[part]
        return "uint32_t"

    @property
    def shared(self) -> bool:
        """Whether its addresses are of shared memory."""
        return any(part.startswith("shared") for part in self.parts)

    @property
    def opcode(self) -> str:
        """The whole opcode."""
        return ".".join((self.name, *self.parts))

    def address(self, operand: str) -> str:
        """An operand as a pointer."""
        return f"simt_shared_address({operand})" if self.shared else f"simt_generic({operand})"
