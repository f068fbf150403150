#!/bin/sh
# Installs tvm_stitch into a virtual environment of its own (.venv) and runs `tvm-stitch demo`.
set -eu
cd "$(dirname "$0")"
. .ci/environment.sh

echo "Installing into .venv ..."
make_environment --editable .
exec .venv/bin/tvm-stitch demo "$@"
