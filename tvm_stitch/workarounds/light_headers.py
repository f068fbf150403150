"""CUDA of TVM's for NVRTC, with a few lines in place of libcu++.

TVM's sources, and what it puts in front of them for NVRTC, include three headers of libcu++, for
the names of integers, of a few traits and of infinity. NVRTC 13 reads them for 1.1 CPU seconds in
every unit, where most kernels take 0.1, and leaves 50 KB of theirs in each binary; the machine code
is the same. It looks for headers first among those that a program is made with. Sources that
include anything else, or use other names, get NVIDIA's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tvm_stitch.workarounds.nvrtc_calls import with_headers

INTEGERS = {"int8": "char", "int16": "short", "int32": "int", "int64": "long long"}
TRAITS = (
    "is_same", "is_same_v", "is_integral", "is_signed", "is_unsigned", "is_floating_point",
    "enable_if", "conditional",
)  # fmt: skip
NAMES = frozenset((*TRAITS, *(f"{sign}{name}_t" for name in INTEGERS for sign in ("", "u"))))
# What NVRTC has itself, and what it passes over, as it is for nvcc.
_OTHERS = frozenset(("cuda_fp16.h", "cuda_bf16.h", "cuda.h", "cstdint", "type_traits"))
_INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
_USED = re.compile(r"\bstd::(\w+)")


@contextmanager
def light_headers(code: str) -> Iterator[bool]:
    """Meanwhile NVRTC, asked by this thread, finds the short headers, if they suit a source."""
    suited = suits(code)
    with with_headers(HEADERS if suited else {}) as is_seen:
        yield suited and is_seen


def suits(code: str) -> bool:
    """Whether a source includes and uses nothing of libcu++ but what stands here."""
    included = set(_INCLUDED.findall(code)) <= _OTHERS | HEADERS.keys()
    return included and set(_USED.findall(code)) <= NAMES


def _header(text: str) -> str:
    return f"#pragma once\nnamespace cuda {{ namespace std {{\n{text}\n}} }}\n"


HEADERS = {
    "cuda/std/cstdint": _header(
        "\n".join(
            f"typedef signed {kind} {name}_t; typedef unsigned {kind} u{name}_t;"
            for name, kind in INTEGERS.items()
        )
    ),
    "cuda/std/limits": _header(
        """
template <typename T> struct numeric_limits;
template <> struct numeric_limits<float> {
  static constexpr float infinity() { return __builtin_bit_cast(float, 0x7f800000); }
};"""
    ),
    "cuda/std/type_traits": _header(
        """
template <bool found> struct bool_constant { static constexpr bool value = found; };
template <typename A, typename B> struct is_same : bool_constant<false> {};
template <typename A> struct is_same<A, A> : bool_constant<true> {};
template <typename A, typename B> constexpr bool is_same_v = is_same<A, B>::value;
template <typename T, typename... Of>
struct is_any : bool_constant<(is_same_v<T, Of> || ...)> {};
template <typename T> struct remove_cv { typedef T type; };
template <typename T> struct remove_cv<const T> { typedef T type; };
template <typename T> struct remove_cv<volatile T> { typedef T type; };
template <typename T> struct remove_cv<const volatile T> { typedef T type; };
template <typename T> struct is_floating_point
    : is_any<typename remove_cv<T>::type, float, double, long double> {};
template <typename T> struct is_integral
    : is_any<typename remove_cv<T>::type, bool, char, signed char, unsigned char, wchar_t, char16_t,
             char32_t, short, unsigned short, int, unsigned int, long, unsigned long, long long,
             unsigned long long, __int128, unsigned __int128> {};
template <typename T, bool is_number> struct signed_number : bool_constant<(T(-1) < T(0))> {};
template <typename T> struct signed_number<T, false> : bool_constant<false> {};
template <typename T> struct is_signed
    : signed_number<T, is_integral<T>::value || is_floating_point<T>::value> {};
template <typename T> struct is_unsigned
    : bool_constant<is_integral<T>::value && !is_signed<T>::value> {};
template <bool found, typename T = void> struct enable_if {};
template <typename T> struct enable_if<true, T> { typedef T type; };
template <bool found, typename A, typename B> struct conditional { typedef A type; };
template <typename A, typename B> struct conditional<false, A, B> { typedef B type; };"""
    ),
}
