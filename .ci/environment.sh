# Sourced by demo.sh, test.sh and .ci/run: a virtual environment made by a Python 3.10 to 3.13.
# PYTHON=... chooses the interpreter, ENVIRONMENT=... where the environment lies (.venv).
environment=${ENVIRONMENT:-.venv}

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

version_of() { # an interpreter; prints 3.12, or nothing where that is none
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || :
}

find_version() { # 3.12; prints an interpreter of it that makes environments, on the path or pyenv's
    pyenv_root=$(pyenv root 2>/dev/null || echo "$HOME/.pyenv")
    for candidate in "python$1" python3 "$pyenv_root/versions/$1".*/bin/python; do
        if [ "$(version_of "$candidate")" = "$1" ] &&
            "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
}

make_environment() { # arguments of pip install; what was installed before is not again
    if ! suits "$environment/bin/python"; then
        python=$(find_python)
        "$python" -c 'import ensurepip, venv' 2>/dev/null ||
            fail "$python cannot make virtual environments." \
                "On Debian: apt-get install python3-venv"
        rm -rf "$environment"
        "$python" -m venv "$environment"
    fi
    stamp="$* $(cksum <pyproject.toml)"
    grep -qxF -e "$stamp" "$environment/installed" 2>/dev/null && return
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check "$@" || return
    echo "$stamp" >>"$environment/installed"
}
