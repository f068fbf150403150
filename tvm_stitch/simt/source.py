"""CUDA source text in, C++ for the CPU out, line for line.

Every rewrite keeps the number of lines, so that a line of a report is a line of the user's source.
Knows the text only: nothing here compiles or runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from tvm_stitch.errors import InputError, SimtError
from tvm_stitch.simt.ptx import translate

# Headers whose contents the runtime's own header provides.
_PROVIDED = re.compile(
    r"cuda\w*\.h|cuda/.*|cooperative_groups.*|math_constants\.h|sm_\d+_intrinsics\.h|"
    r"device_launch_parameters\.h|vector_types\.h|math\.h|cmath|stdio\.h|cstdio"
)
_UNSUPPORTED = {
    "mma.h": "tensor cores by wmma",
    "cuda_fp8.h": "8-bit floats",
    "cuda_fp6.h": "6-bit floats",
    "cuda_fp4.h": "4-bit floats",
    "nvshmem.h": "NVSHMEM",
}
_SCALAR_BYTES = {
    "bool": 1, "char": 1, "signed char": 1, "unsigned char": 1, "uchar": 1, "int8_t": 1,
    "uint8_t": 1, "short": 2, "ushort": 2, "unsigned short": 2, "int16_t": 2, "uint16_t": 2,
    "half": 2, "__half": 2, "nv_bfloat16": 2, "__nv_bfloat16": 2, "int": 4, "uint": 4,
    "unsigned": 4, "unsigned int": 4, "int32_t": 4, "uint32_t": 4, "float": 4, "long": 8,
    "long long": 8, "int64_t": 8, "unsigned long": 8, "unsigned long long": 8, "uint64_t": 8,
    "size_t": 8, "double": 8, "half2": 4, "float2": 8, "float4": 16, "int4": 16, "uint4": 16,
}  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """One kernel parameter: its name, and its C type without qualifiers."""

    name: str
    type: str
    pointer: bool

    @property
    def element_bytes(self) -> int | None:
        """Size of a scalar of this type; None for a type that is not known here."""
        return _SCALAR_BYTES.get(self.type)


@dataclass(frozen=True)
class KernelSource:
    """One kernel of a CUDA source: what it takes, and its C++ for the CPU."""

    name: str
    parameters: tuple[Parameter, ...]
    cuda: str
    cpp: str
    shared_arrays: tuple[str, ...]

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The CUDA source by lines, for reports."""
        return tuple(self.cuda.splitlines())

    def line(self, number: int) -> str:
        """The text of a line, counted from 1; empty outside the source."""
        return self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""


@dataclass(frozen=True)
class _Definition:
    name: str
    parameters: str
    begin: int
    end: int
    has_body: bool


def read_kernel(cuda: str, kernel: str | None = None) -> KernelSource:
    """The kernel of that name, or the only one, ready to be compiled for the CPU."""
    masked = _mask(cuda)
    definitions = _definitions(cuda, masked)
    chosen = _choose([d for d in definitions if d.has_body], kernel)
    text = list(cuda)
    for other in definitions:
        if other.name != chosen.name:
            _blank(text, other.begin, other.end)
    kept = "".join(text)
    cpp, slots = _rewrite_shared(_rewrite_asm(_rewrite_includes(kept)))
    cpp = re.sub(r"\b(?:std::)?(memcpy|memset)(?=\s*\()", r"simt_\1", cpp)
    parameters = _parameters(chosen)
    return KernelSource(
        chosen.name, parameters, cuda, _unit(chosen.name, parameters, cpp, slots), slots
    )


def kernel_names(cuda: str) -> tuple[str, ...]:
    """The kernels defined in a CUDA source, in order."""
    return tuple(d.name for d in _definitions(cuda, _mask(cuda)) if d.has_body)


def _choose(definitions: list[_Definition], kernel: str | None) -> _Definition:
    names = [d.name for d in definitions]
    if not names:
        raise InputError("the source defines no __global__ function; pass generated CUDA source")
    if kernel is None:
        if len(names) > 1:
            raise InputError(f"the source has {len(names)} kernels, name one of: {names}")
        return definitions[0]
    for suffix in ("", "_kernel"):  # TVM names the kernel of `f` `f_kernel`
        for definition in definitions:
            if definition.name == kernel + suffix:
                return definition
    raise InputError(f"no kernel {kernel!r} in the source; it has: {', '.join(names)}")


def _mask(text: str) -> str:
    """The text with comments, strings and characters blanked, position for position."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group())

    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, blank, text, flags=re.S)


def _closing(masked: str, opening: int) -> int:
    """The position after the bracket that closes the one at `opening`."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    close, depth = pairs[masked[opening]], 0
    for position in range(opening, len(masked)):
        if masked[position] == masked[opening]:
            depth += 1
        elif masked[position] == close:
            depth -= 1
            if depth == 0:
                return position + 1
    line = masked.count("\n", 0, opening) + 1
    raise InputError(f"line {line}: {masked[opening]!r} is never closed; is the source complete?")


_HEAD = re.compile(r'(?:extern\s+"?[ C]*"?\s+)?(?:static\s+|inline\s+)*__global__\b')


def _definitions(cuda: str, masked: str) -> list[_Definition]:
    found = []
    position = 0
    while head := _HEAD.search(masked, position):
        cursor, name, parameters = head.end(), "", ""
        while True:  # the parameter list is the last bracket before the body
            token = re.compile(r"\s*(\w+|[({;])").match(masked, cursor)
            if not token:
                line = masked.count("\n", 0, head.start()) + 1
                raise InputError(f"line {line}: cannot read this kernel's declaration")
            if token.group(1) == "(":
                end = _closing(masked, token.start(1))
                parameters, cursor = cuda[token.end(1) : end - 1], end
            elif token.group(1) in "{;":
                break
            else:
                if token.group(1) not in ("void", "__launch_bounds__", "__maxnreg__"):
                    name = token.group(1)
                cursor = token.end(1)
        has_body = token.group(1) == "{"
        end = _closing(masked, token.start(1)) if has_body else token.end(1)
        found.append(_Definition(name, parameters, head.start(), end, has_body))
        position = end
    return found


def _parameters(definition: _Definition) -> tuple[Parameter, ...]:
    result = []
    for text in _split(_mask(definition.parameters), definition.parameters):
        if text.strip() in ("", "void"):
            continue
        bare = re.sub(r"\b(__restrict__|__grid_constant__|const|volatile|struct)\b", " ", text)
        match = re.fullmatch(r"\s*(.*?)\s*(\*?)\s*(\w+)\s*", bare, flags=re.S)
        if not match or "*" in match.group(1):
            raise InputError(
                f"kernel {definition.name}: cannot read the parameter {text.strip()!r}"
            )
        type_name = " ".join(match.group(1).split())
        result.append(Parameter(match.group(3), type_name, bool(match.group(2))))
    return tuple(result)


def _split(masked: str, text: str, separator: str = ",") -> list[str]:
    """Splits at separators outside of all brackets."""
    parts, depth, begin = [], 0, 0
    for position, character in enumerate(masked):
        if character in "([{<":
            depth += 1
        elif character in ")]}>":
            depth -= 1
        elif character == separator and depth == 0:
            parts.append(text[begin:position])
            begin = position + 1
    return [*parts, text[begin:]]


def _blank(text: list[str], begin: int, end: int) -> None:
    for position in range(begin, end):
        if text[position] != "\n":
            text[position] = " "


def _rewrite_includes(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        header = match.group(1)
        if header in _UNSUPPORTED:
            raise SimtError(
                f"the kernel includes <{header}>: the CPU executor has no {_UNSUPPORTED[header]}; "
                "schedule it without them, or run it on a GPU"
            )
        return "" if _PROVIDED.fullmatch(header) else match.group()

    return re.sub(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', replace, text, flags=re.M)


def _rewrite_asm(text: str) -> str:
    masked = _mask(text)
    output, position = [], 0
    for match in re.finditer(
        r"\b(?:asm|__asm__|__asm)\b(?:\s+(?:volatile|__volatile__))?\s*(?=\()", masked
    ):
        if match.start() < position:
            continue
        end = _closing(masked, match.end())
        line = text.count("\n", 0, match.start()) + 1
        cpp = translate(text[match.end() + 1 : end - 1], line)
        output += [text[position : match.start()], cpp]
        output.append("\n" * text.count("\n", match.start(), end))
        position = end
    return "".join([*output, text[position:]])


def _rewrite_shared(text: str) -> tuple[str, tuple[str, ...]]:
    """Makes references into the runtime's shared memory out of __shared__ declarations."""
    masked = _mask(text)
    names: list[str] = []
    output, position = [], 0
    for match in re.finditer(r"\b__shared__\b", masked):
        line = text.count("\n", 0, match.start()) + 1
        begin = max(masked.rfind(c, 0, match.start()) for c in ";{}") + 1
        begin += len(masked[begin:]) - len(masked[begin:].lstrip())
        end = masked.index(";", match.end()) + 1
        if masked.count("{", 0, begin) == masked.count("}", 0, begin):
            raise SimtError(
                f"line {line}: a __shared__ array outside of a function; move it into the kernel"
            )
        cpp = _declare(text[begin : end - 1], names, line)
        output += [text[position:begin], cpp, "\n" * text.count("\n", begin, end)]
        position = end
    return "".join([*output, text[position:]]), tuple(names)


def _declare(statement: str, names: list[str], line: int) -> str:
    alignment = r"(?:alignas|__align__)\s*\([^)]*\)"
    dynamic = re.search(r"\bextern\b", statement) is not None
    bare = re.sub(rf"\b(?:extern|static|__shared__)\b|{alignment}", " ", statement)
    first, *rest = (" ".join(part.split()) for part in _split(bare, bare))
    match = re.fullmatch(r"(.*[\w>*])\s+(\w+)\s*((?:\[.*\])?)", first)
    if not match:
        raise SimtError(f"line {line}: cannot read the __shared__ declaration {statement!r}")
    type_name = match.group(1)
    declarators = [(match.group(2), match.group(3))]
    for part in rest:
        name, _, dimensions = part.partition("[")
        declarators.append((name.strip(), f"[{dimensions}" if dimensions else ""))
    if dynamic:
        name = declarators[0][0]
        return f"{type_name}* {name} = ({type_name}*)simt_dynamic_shared();"
    result = []
    for name, dimensions in declarators:
        result.append(f"auto& {name} = simt_slot_of<{len(names)}, {type_name}{dimensions}>();")
        names.append(name)
    return " ".join(result)


def _unit(name: str, parameters: tuple[Parameter, ...], cpp: str, slots: tuple[str, ...]) -> str:
    """The translation unit: the rewritten source, its shared arrays, and an entry for fibers."""
    arguments = ", ".join(
        f"*({p.type}{'*' if p.pointer else ''}*)arguments[{i}]" for i, p in enumerate(parameters)
    )
    table = ", ".join(f'{{"{slot}", 0, 0}}' for slot in slots)
    return (
        f'#line 1 "kernel.cu"\n{cpp}\n#line 1 "entry"\n'
        f'extern "C" __attribute__((visibility("default"))) simt_slot simt_slots[] = '
        f"{{{table or '{nullptr, 0, 0}'}}};\n"
        f'extern "C" __attribute__((visibility("default"), no_sanitize("thread", "undefined")))\n'
        f"void simt_entry(void** arguments) {{ {name}({arguments}); }}\n"
    )
