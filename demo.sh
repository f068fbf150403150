#!/bin/sh
# Installs tvm_stitch into a virtual environment of its own (.venv) and runs `tvm-stitch demo`.
set -eu
cd "$(dirname "$0")"
. .ci/environment.sh

echo "Installing into $environment ..."
make_environment --editable .
exec "$environment/bin/tvm-stitch" demo "$@"
