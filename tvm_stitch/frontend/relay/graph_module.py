"""What ``relay.build`` gives: a compiled model that serves as GraphModule did.

In: a compiled Relax module. Out: ``set_input``, ``run``, ``get_output``; a library that can be
saved and loaded by a process that knows nothing of how it was made.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_stitch.errors import RelayError, last_line

_ENTRY = "main"
_MAX_SHOWN = 6


class GraphModule:
    """A compiled model and the device it runs on.

    ``relay.build`` makes one; ``GraphModule(tvm.runtime.load_module(path), device)`` or
    ``GraphModule.load(path)`` makes one of a saved library. Old scripts index the result of build
    with "default" and call that with a device: both still work and lead here.
    """

    def __init__(self, library: Any, device: Any = None) -> None:
        given = library if isinstance(library, GraphModule) else None
        self.library: Any = given.library if given else library
        self.device: Any = device or (given.device if given else tvm.cpu())
        self._inputs: dict[str, Any] = {}
        self._outputs: list[Any] | None = None

    @cached_property
    def _vm(self) -> Any:
        """The virtual machine, started when it is first needed.

        A library for a GPU can so be built and saved where there is none.
        """
        if not self.device.exist:
            raise RelayError(
                f"there is no {self.device} on this machine: export_library saves the model for "
                "one that has it"
            )
        try:
            machine = relax.VirtualMachine(self.library, self.device)
            machine[_ENTRY]
        except Exception as error:
            raise RelayError(
                f"this library cannot run on {self.device}: {last_line(error)}. It needs a "
                "compiled Relax function main for this device; libraries of TVM 0.19 or older "
                "have to be built again from the Relay module"
            ) from error
        return machine

    @cached_property
    def input_names(self) -> list[str]:
        """The inputs that are left to be set, in order."""
        count = self._vm._get_function_arity(_ENTRY)
        return [self._vm._get_function_param_name(_ENTRY, i) for i in range(count)]

    @classmethod
    def load(cls, path: str | PathLike[str], device: Any = None) -> GraphModule:
        """A library that ``export_library`` saved."""
        try:
            library = tvm.runtime.load_module(str(path))
        except Exception as error:
            raise RelayError(f"{path} cannot be loaded as a compiled library") from error
        return cls(library, device)

    # What old scripts do with the result of build before they have a GraphModule.

    def __getitem__(self, name: str) -> Any:
        if name != "default":
            raise KeyError(name)
        return lambda device: GraphModule(self.library, device)

    def __iter__(self) -> Iterator[Any]:
        """Unpacked as ``graph, library, params`` by scripts written before TVM 0.7."""
        raise TypeError(
            "relay.build returns one object; replace `graph, lib, params = relay.build(...)` by "
            "`lib = relay.build(...)` and drop graph and params, which lib holds"
        )

    # Inputs

    def set_input(self, key: Any = None, value: Any = None, **params: Any) -> None:
        """Set an input by name or position, or several by keyword."""
        if key is not None:
            name = self._name(key)
            self._inputs[name] = self._tensor(value)
        for name, array in params.items():
            # Parameters bound at build time may be given again, as GraphModule allowed.
            if name in self.input_names:
                self._inputs[name] = self._tensor(array)

    def get_num_inputs(self) -> int:
        """How many inputs there are."""
        return len(self.input_names)

    def get_input(self, index: int | str) -> Any:
        """An input that was set."""
        name = self._name(index)
        if name not in self._inputs:
            raise RelayError(f"input {name} has not been set")
        return self._inputs[name]

    def _name(self, key: Any) -> str:
        if isinstance(key, int) and 0 <= key < len(self.input_names):
            return self.input_names[key]
        if key in self.input_names:
            return str(key)
        known = ", ".join(self.input_names[:_MAX_SHOWN]) or "none"
        more = ", ..." if len(self.input_names) > _MAX_SHOWN else ""
        raise RelayError(f"there is no input {key!r}; the inputs are {known}{more}")

    def _tensor(self, value: Any) -> Any:
        if isinstance(value, tvm.runtime.Tensor):
            return value.copyto(self.device) if value.device != self.device else value
        return tvm.runtime.tensor(np.ascontiguousarray(value).reshape(np.shape(value)), self.device)

    def _arguments(self) -> list[Any]:
        missing = [name for name in self.input_names if name not in self._inputs]
        if missing:
            shown = ", ".join(missing[:_MAX_SHOWN]) + (", ..." if len(missing) > _MAX_SHOWN else "")
            raise RelayError(
                f"{len(missing)} of {len(self.input_names)} inputs are not set: {shown}; call "
                "set_input, or give the parameters to relay.build"
            )
        return [self._inputs[name] for name in self.input_names]

    # Running

    def run(self, **inputs: Any) -> None:
        """Run the model on the inputs set before and now."""
        for name, value in inputs.items():
            self.set_input(name, value)
        arguments = self._arguments()
        try:
            result = self._vm[_ENTRY](*arguments)
        except Exception as error:
            raise RelayError(f"the model does not accept its inputs: {last_line(error)}") from error
        self._outputs = list(_flat(result))

    def get_num_outputs(self) -> int:
        """How many outputs there are; known after the first run."""
        return len(self._ran())

    def get_output(self, index: int, out: Any = None) -> Any:
        """An output of the last run."""
        outputs = self._ran()
        if not 0 <= index < len(outputs):
            raise RelayError(f"there is no output {index}; the model has {len(outputs)}")
        if out is None:
            return outputs[index]
        outputs[index].copyto(out)
        return out

    def _ran(self) -> list[Any]:
        if self._outputs is None:
            raise RelayError("the model has not run yet; call run first")
        return self._outputs

    def benchmark(
        self,
        device: Any = None,
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: int | None = None,
        end_to_end: bool = False,
        **inputs: Any,
    ) -> Any:
        """Time runs of the model; the result has ``mean``, ``median``, ``std`` and ``results``."""
        if func_name != "run":
            raise RelayError(f"there is no function {func_name!r} to time, only run")
        if end_to_end:
            raise RelayError("end_to_end is not offered: inputs are on the device already")
        for name, value in inputs.items():
            self.set_input(name, value)
        timer = self._vm.module.time_evaluator(
            _ENTRY,
            device or self.device,
            number=number,
            repeat=repeat,
            min_repeat_ms=min_repeat_ms or 0,
        )
        return timer(*self._arguments())

    # Saving

    def get_lib(self) -> Any:
        """The compiled library, as TVM knows it."""
        return self.library

    def export_library(self, path: str | PathLike[str], **options: Any) -> None:
        """Save the library; ``GraphModule.load`` or ``tvm.runtime.load_module`` loads it."""
        if not hasattr(self.library, "export_library"):
            raise RelayError("this model was loaded from a library; copy that file instead")
        self.library.export_library(str(path), **options)


def _flat(result: Any) -> Iterator[Any]:
    if isinstance(result, tvm.runtime.Tensor):
        yield result
    else:
        for item in result:
            yield from _flat(item)
