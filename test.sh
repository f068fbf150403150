#!/bin/sh
# Installs tvm_stitch with what its tests need into .venv, and runs ruff, mypy and pytest.
# Arguments go to pytest: ./test.sh -k softmax; with -m "" the slow tests run as well.
set -eu
cd "$(dirname "$0")"
. .ci/environment.sh

echo "Installing into $environment ..."
make_environment --editable '.[dev]'
python=$environment/bin/python
# Some tests compare with PyTorch. Only its CPU build will do: the other brings gigabytes of CUDA.
"$python" -c 'import torch' 2>/dev/null ||
    make_environment 'torch==2.13.0+cpu' 2>/dev/null ||
    echo "No CPU build of PyTorch for this Python on offer: the tests that need it are skipped."
command -v "${TVM_STITCH_CXX:-g++}" >/dev/null ||
    echo "No g++ (Debian: apt-get install g++): the tests that run kernels on the CPU are skipped."
command -v chromium >/dev/null ||
    echo "No Chromium (Debian: apt-get install chromium): the tests of the report's page are skipped."

# A sample of the tests is for other Pythons, with other releases of NumPy whose stubs mypy reads.
case " $* " in
*" --sample "*) ;;
*)
    "$python" -m ruff check .
    "$python" -m ruff format --check .
    "$python" -m mypy
    ;;
esac
exec "$python" -m pytest -n 2 -m "not slow" "$@"
