"""Inline assembly in, C++ out, for the PTX instructions that TVM emits.

An asm statement becomes a block: PTX registers become variables, predicates become `if`, and each
instruction one statement. An instruction that is not in the table is an error that names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tvm_stitch.errors import SimtError
from tvm_stitch.simt import matrices
from tvm_stitch.simt.instruction import TYPES, Instruction

_SPECIAL = {
    "%laneid": "simt_special_register(SIMT_LANE)",
    "%warpid": "simt_special_register(SIMT_WARP)",
    "%cluster_ctarank": "simt_special_register(SIMT_CLUSTER_RANK)",
    "%cluster_nctarank": "simt_special_register(SIMT_CLUSTER_SIZE)",
    "%clock": "simt_special_register(SIMT_CLOCK)",
    "%clock64": "simt_special_register(SIMT_CLOCK)",
    "%globaltimer": "simt_special_register(SIMT_CLOCK)",
    "%globaltimer_lo": "simt_special_register(SIMT_CLOCK)",
    "%smid": "0u",
    "%nsmid": "1u",
    **{f"%tid.{axis}": f"threadIdx.{axis}" for axis in "xyz"},
    **{f"%ntid.{axis}": f"blockDim.{axis}" for axis in "xyz"},
    **{f"%ctaid.{axis}": f"blockIdx.{axis}" for axis in "xyz"},
    **{f"%nctaid.{axis}": f"gridDim.{axis}" for axis in "xyz"},
}
# Order memory or hint at caches: nothing to do where fibers run one at a time.
_NOTHING = (
    "fence", "membar", "griddepcontrol", "prefetch", "prefetchu", "applypriority", "discard",
    "nanosleep", "setmaxnreg",
)  # fmt: skip
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
            "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}  # fmt: skip
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^",
          "shl": "<<", "shr": ">>"}  # fmt: skip
_UNARY = {
    "ex2": "__builtin_exp2f({0})",
    "lg2": "__builtin_log2f({0})",
    "rcp": "1.0f / {0}",
    "sqrt": "__builtin_sqrtf({0})",
    "rsqrt": "rsqrtf({0})",
    "sin": "__builtin_sinf({0})",
    "cos": "__builtin_cosf({0})",
    "tanh": "__builtin_tanhf({0})",
    "abs": "__builtin_fabsf({0})",
    "neg": "-{0}",
}
_ATOMICS = {"add": "atomicAdd", "exch": "atomicExch", "min": "atomicMin", "max": "atomicMax",
            "and": "atomicAnd", "or": "atomicOr", "xor": "atomicXor"}  # fmt: skip


def translate(body: str, line: int) -> str:
    """The C++ statement for what stands between the brackets of `asm (...)`."""
    template, expressions = _sections(body, line)
    statements = []
    for text in re.sub(r"//[^\n]*|/\*.*?\*/", " ", template, flags=re.S).split(";"):
        text = text.strip().lstrip("{} \n").rstrip()
        if text:
            statements.append(_statement(text, expressions, line))
    return "{ " + " ".join(statements) + " }"


def _sections(body: str, line: int) -> tuple[str, list[str]]:
    """The assembly text, and the operands' C++ expressions in the order of their numbers."""
    sections, depth, quoted, begin, position = [], 0, False, 0, 0
    while position < len(body):
        character = body[position]
        if character == "\\" and quoted:
            position += 1
        elif character == '"':
            quoted = not quoted
        elif not quoted and character in "([{":
            depth += 1
        elif not quoted and character in ")]}":
            depth -= 1
        elif not quoted and depth == 0 and character == ":":
            sections.append(body[begin:position])
            begin = position + 1
        position += 1
    sections.append(body[begin:])
    literals = re.findall(r'"((?:\\.|[^"\\])*)"', sections[0])
    if not literals:
        raise SimtError(f"line {line}: cannot read this asm statement")
    template = "".join(literals).replace("\\n", "\n").replace("\\t", " ").replace('\\"', '"')
    expressions = []
    for section in sections[1:3]:
        for constraint in re.finditer(r'(?:\[\w+\]\s*)?"([^"]*)"\s*\(', section):
            end, nesting = constraint.end(), 1
            while nesting:
                nesting += {"(": 1, ")": -1}.get(section[end], 0)
                end += 1
            expressions.append(f"({section[constraint.end() : end - 1]})")
    return template, expressions


def _statement(text: str, expressions: list[str], line: int) -> str:
    if text.startswith(".reg"):
        return _registers(text)
    predicate = re.match(r"@(!?)%{0,2}(\w+)\s+", text)
    if predicate:
        inner = _statement(text[predicate.end() :], expressions, line)
        return f"if ({predicate.group(1)}simt_{predicate.group(2)}) {{ {inner} }}"
    match = re.match(r"([a-z]\w*)((?:[.:]+\w+)*)\s*(.*)", text, flags=re.S)
    if match:
        parts = tuple(re.sub(r"::", "_", match.group(2)).strip(".").split("."))
        operands = tuple(_operand(o, expressions) for o in _split_operands(match.group(3)))
        instruction = Instruction(match.group(1), parts, operands)
        for handle in _HANDLERS:
            cpp = handle(instruction)
            if cpp is not None:
                return cpp
    raise SimtError(
        f"line {line}: the CPU executor does not know the PTX instruction {text!r}; "
        "run this kernel on a GPU, or add the instruction to tvm_stitch/simt/ptx.py"
    )


def _registers(text: str) -> str:
    match = re.match(r"\.reg\s+\.(\w+)\s+(.*)", text, flags=re.S)
    assert match
    names = (name.strip().lstrip("%") for name in match.group(2).split(","))
    kind = "bool" if match.group(1) == "pred" else TYPES[match.group(1)]
    return " ".join(f"{kind} simt_{name} = {kind}();" for name in names)


def _split_operands(text: str) -> list[str]:
    return [part.strip() for part in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*", text)]


def _operand(text: str, expressions: list[str]) -> str:
    if text.startswith("{"):
        inner = [_operand(part.strip(), expressions) for part in text.strip("{} ").split(",")]
        return "{" + ",".join(inner) + "}"
    if text.startswith("["):
        base, _, offset = text.strip("[] ").partition("+")
        address = _operand(base.strip(), expressions)
        return f"({address} + {offset.strip()})" if offset else address
    text = text.replace("%%", "%")
    if re.fullmatch(r"%\d+", text):
        return expressions[int(text[1:])]
    if text in _SPECIAL:
        return _SPECIAL[text]
    if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)U?", text):
        return text
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", text):
        return f"__uint_as_float(0x{text[2:]}u)"
    if "|" in text:
        return text
    return f"simt_{text.lstrip('%')}"


def _vector(i: Instruction) -> tuple[int, str]:
    """How many elements a load or store moves, and the C++ type that moves them at once."""
    count = next((int(p[1]) for p in i.parts if re.fullmatch(r"v[248]", p)), 1)
    size = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}
    bits = next((p for p in reversed(i.parts) if p in TYPES), "b32").lstrip("bfus")
    whole = {2: "uint16_t", 4: "uint32_t", 8: "uint2", 16: "uint4"}
    return count, i.type if count == 1 else whole.get(size.get(bits, 0) * count, "")


def _synchronise(i: Instruction) -> str | None:
    opcode = i.opcode
    if i.name in _NOTHING or opcode.startswith(("cp.async.mbarrier", "cp.async.bulk.commit")):
        return ";" if i.name in _NOTHING else None
    if opcode.startswith("barrier.cluster.arrive"):
        return "simt_cluster_arrive();"
    if opcode.startswith("barrier.cluster.wait"):
        return "simt_cluster_wait();"
    if opcode.startswith(("bar.sync", "barrier.sync", "barrier.cta.sync")):
        threads = i.operands[1] if len(i.operands) > 1 else "1 << 30"
        return f"simt_block_barrier({i.operands[0]}, {threads}, 0);"
    if opcode.startswith("bar.warp.sync"):
        return f"__syncwarp({i.operands[0]});"
    if opcode == "elect.sync":
        predicate = i.operands[0].split("|")[1].strip().lstrip("%")
        return (
            f"__syncwarp({i.operands[1]}); simt_{predicate} = "
            f"simt_special_register(SIMT_LANE) == (unsigned)__builtin_ctz({i.operands[1]});"
        )
    return "simt_trap();" if opcode in ("trap", "exit") else None


def _address_space(i: Instruction) -> str | None:
    opcode = i.opcode
    if i.name == "mapa":
        to, address, rank = i.operands
        if i.shared:
            mapped = f"simt_map_shared(simt_from_shared_window({address}), {rank})"
            return f"{to} = simt_shared_window({mapped});"
        return f"{to} = (uint64_t)simt_map_shared((const void*)({address}), {rank});"
    if opcode.startswith("cvta.to.shared"):
        return f"{i.operands[0]} = simt_shared_window((const void*)({i.operands[1]}));"
    if opcode.startswith("cvta.shared"):
        return f"{i.operands[0]} = (uint64_t)simt_from_shared_window({i.operands[1]});"
    if i.name == "cvta":
        return f"{i.operands[0]} = {i.operands[1]};"
    return None


def _copy_async(i: Instruction) -> str | None:
    if i.name != "cp" or i.parts[0] != "async" or "bulk" in i.parts:
        return None
    if "commit_group" in i.parts:
        return "simt_async_commit();"
    if "wait_group" in i.parts:
        return f"simt_async_wait({i.operands[0]});"
    if "wait_all" in i.parts:
        return "simt_async_commit(); simt_async_wait(0);"
    operands = i.operands[:-1] if "L2_cache_hint" in i.parts else i.operands
    to, source, size, *rest = operands
    valid = f"simt_valid_bytes({size}, {rest[0]})" if rest else size
    return f"simt_async_copy(simt_shared_address({to}), simt_generic({source}), {size}, {valid});"


def _mbarrier(i: Instruction) -> str | None:
    if i.name == "st" and "async" in i.parts:
        to, value, barrier = i.operands
        return (
            f"{{ {i.type} simt_v; simt_assign(simt_v, {value}); simt_store_async("
            f"{i.address(to)}, &simt_v, sizeof simt_v, {i.address(barrier)}); }}"
        )
    if i.name != "mbarrier":
        return None
    if i.parts[0] == "init":
        return f"simt_mbarrier_init({i.address(i.operands[0])}, {i.operands[1]});"
    if i.parts[:2] == ("arrive", "expect_tx"):
        return f"simt_mbarrier_arrive({i.address(i.operands[-2])}, {i.operands[-1]});"
    if i.parts[:2] == ("try_wait", "parity"):
        done, barrier, parity = i.operands
        return f"{done} = simt_mbarrier_test({i.address(barrier)}, {parity});"
    return None


def _move(i: Instruction) -> str | None:
    if i.name == "mov":
        return f"simt_assign({i.operands[0]}, {i.operands[1]});"
    if i.name not in ("ld", "st"):
        return None
    strong = any(p in ("relaxed", "acquire", "release", "volatile", "mmio") for p in i.parts)
    suffix = "_strong" if strong else ""
    count, kind = _vector(i)
    if not kind:
        return None
    value, address = i.operands if i.name == "ld" else reversed(i.operands)
    if count == 1:
        value = value.strip("{}")
        if i.name == "ld":
            return f"simt_assign({value}, simt_load{suffix}<{kind}>({i.address(address)}));"
        return (
            f"{{ {kind} simt_v; simt_assign(simt_v, {value}); "
            f"simt_store{suffix}<{kind}>({i.address(address)}, simt_v); }}"
        )
    elements = value.strip("{}")
    if i.name == "ld":
        return (
            f"{{ {kind} simt_v = simt_load{suffix}<{kind}>({i.address(address)}); "
            f"simt_spread(({i.type}*)&simt_v, {elements}); }}"
        )
    copies = " ".join(f"simt_assign(simt_e[{n}], {e});" for n, e in enumerate(elements.split(",")))
    return (
        f"{{ {kind} simt_v; {i.type}* simt_e = ({i.type}*)&simt_v; {copies} "
        f"simt_store{suffix}<{kind}>({i.address(address)}, simt_v); }}"
    )


def _atomic(i: Instruction) -> str | None:
    if i.name not in ("atom", "red"):
        return None
    operands = i.operands if i.name == "atom" else ("", *i.operands)
    pointer = f"({i.type}*){i.address(operands[1])}"
    if "cas" in i.parts:
        call = f"atomicCAS({pointer}, {operands[2]}, {operands[3]})"
    else:
        name = next((_ATOMICS[p] for p in i.parts if p in _ATOMICS), None)
        if name is None:
            return None
        call = f"{name}({pointer}, {operands[2]})"
    return f"simt_assign({operands[0]}, {call});" if operands[0] else f"{call};"


def _arithmetic(i: Instruction) -> str | None:
    if i.name == "setp":
        return (
            f"{i.operands[0]} = ({i.type})({i.operands[1]}) "
            f"{_COMPARE[i.parts[0]]} ({i.type})({i.operands[2]});"
        )
    if i.name == "selp":
        return f"{i.operands[0]} = {i.operands[3]} ? {i.operands[1]} : {i.operands[2]};"
    if i.name == "cvt" and len(i.operands) == 3:  # two floats packed; the first goes on top
        pair = TYPES[next(p for p in i.parts if p.endswith("x2"))]
        return f"simt_assign({i.operands[0]}, {pair}({i.operands[2]}, {i.operands[1]}));"
    if i.name == "cvt":
        kinds = [TYPES[p] for p in i.parts if p in TYPES]
        return f"{{ {kinds[1]} simt_f; simt_assign(simt_f, {i.operands[1]}); " + (
            f"simt_assign({i.operands[0]}, ({kinds[0]})simt_f); }}"
        )
    if i.name == "dp4a":
        kinds = ["uint8_t" if p.startswith("u") else "int8_t" for p in i.parts]
        inputs = ", ".join(i.operands[1:])
        return f"{i.operands[0]} = simt_dot4<{kinds[0]}, {kinds[1]}>({inputs});"
    values = [f"({i.type})({operand})" for operand in i.operands[1:]]
    if i.name in _INFIX and len(values) == 2:
        return f"{i.operands[0]} = {values[0]} {_INFIX[i.name]} {values[1]};"
    if i.name in ("fma", "mad"):
        return (
            f"{i.operands[0]} = __builtin_fma({', '.join(values)});"
            if (i.type in ("float", "double"))
            else f"{i.operands[0]} = {values[0]} * {values[1]} + {values[2]};"
        )
    if i.name in ("min", "max"):
        return f"{i.operands[0]} = {i.name}({', '.join(values)});"
    if i.name in _UNARY and i.type == "float":
        return f"{i.operands[0]} = {_UNARY[i.name].format(*values)};"
    return None


_HANDLERS: tuple[Callable[[Instruction], str | None], ...] = (
    _synchronise,
    _address_space,
    _copy_async,
    matrices.of_a_warp,
    matrices.of_a_warpgroup,
    _mbarrier,
    _move,
    _atomic,
    _arithmetic,
)
