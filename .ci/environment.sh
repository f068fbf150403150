# Sourced by demo.sh and test.sh: a virtual environment in .venv, made by a Python 3.10 to 3.13.
# PYTHON=... chooses the interpreter.

fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

suits() {
    command -v "$1" >/dev/null 2>&1 &&
        "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 14))' 2>/dev/null
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.11 python3.12 python3.13 python3.10}; do
        if suits "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.10 to 3.13 is needed and not found${PYTHON:+ at PYTHON=$PYTHON}." \
        "On Debian: apt-get install python3 python3-venv"
}

make_environment() { # arguments of pip install; what was installed before is not again
    if ! suits .venv/bin/python; then
        python=$(find_python)
        "$python" -c 'import ensurepip, venv' 2>/dev/null ||
            fail "$python cannot make virtual environments." \
                "On Debian: apt-get install python3-venv"
        rm -rf .venv
        "$python" -m venv .venv
    fi
    stamp="$* $(cksum <pyproject.toml)"
    grep -qxF -e "$stamp" .venv/installed 2>/dev/null && return
    .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@" || return
    echo "$stamp" >>.venv/installed
}
