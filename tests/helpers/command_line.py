"""The command line in this process: its exit code, and what it printed."""

from tvm_stitch.commands import cli


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    code = cli.main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(capsys, *arguments: str) -> str:
    """Wrong use: exit code 2, nothing on stdout, and a message of a few lines."""
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert 1 <= len(err.splitlines()) <= 4
    return err
