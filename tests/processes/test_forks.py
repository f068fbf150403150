"""Questions that several processes answer: each gets its answer, or none where there is none."""

import os
import pickle
import signal
import time

import forked
import pytest

from tvm_stitch.processes import forks as module
from tvm_stitch.processes import pickled
from tvm_stitch.processes.fork_server import ForkServer
from tvm_stitch.processes.forks import Forks
from tvm_stitch.processes.pickled import JOBS, jobs, jobs_now


@pytest.fixture(scope="module")
def two_jobs():
    with forked.two_jobs() as patched:
        patched.syspath_prepend(os.path.dirname(forked.__file__))
        yield


@pytest.fixture
def forks(two_jobs):
    found = forked.ready()
    yield found
    found.end()


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def test_questions_are_answered_whatever_the_order(forks):
    asked = [forks.ask(forked.doubled, number) for number in range(20)]
    assert [forks.answer(question) for question in reversed(asked)] == list(range(38, -1, -2))


def test_answers_come_as_they_are_found(forks):
    slow = forks.ask(forked.after, 0.5, "slow")
    quick = forks.ask(forked.after, 0.0, "quick")
    found = [(question, answer[0]) for question, answer in forks.answers([slow, quick])]
    assert found == [(quick, "quick"), (slow, "slow")]


@pytest.mark.slow
def test_so_many_work_at_a_time_as_there_may_be(forks):
    start = time.monotonic()
    asked = [forks.ask(forked.after, 0.3, number) for number in range(4)]
    found = [forks.answer(question) for question in asked]
    assert time.monotonic() - start >= 0.6
    assert [number for number, _ in found] == [0, 1, 2, 3]
    assert len({pid for _, pid in found}) == 4 and os.getpid() not in {pid for _, pid in found}


@pytest.mark.slow
def test_what_can_wait_comes_last_and_holds_nothing_up(forks):
    waiting = [forks.ask(forked.after, 1.0, number, can_wait=True) for number in range(4)]
    start = time.monotonic()
    soon = [forks.ask(forked.after, 0.2, number) for number in range(2)]
    assert [forks.answer(question)[0] for question in soon] == [0, 1]
    assert time.monotonic() - start < 0.9  # beside the two that had begun
    assert [forks.answer(question)[0] for question in waiting] == [0, 1, 2, 3]


@pytest.mark.slow
def test_on_busy_machines_only_what_can_wait_takes_all_cores(two_jobs, monkeypatch):
    monkeypatch.setattr(module, "jobs_now", lambda: 2)
    monkeypatch.setattr(module, "jobs", lambda: 4)
    forks = forked.ready()
    try:
        for can_wait, seconds in ((True, 0.5), (False, 1.0)):
            start = time.monotonic()
            asked = [forks.ask(forked.after, 0.5, n, can_wait=can_wait) for n in range(4)]
            assert [forks.answer(question)[0] for question in asked] == [0, 1, 2, 3]
            assert seconds <= time.monotonic() - start < seconds + 0.45
    finally:
        forks.end()


@pytest.mark.slow
def test_forks_ask_others_and_leave_them_their_places(forks):
    """There are two places: if those who wait for others kept them there would be none left."""
    asked = [forks.ask(forked.sum_of_doubled, list(range(n))) for n in (3, 5, 7)]
    assert [forks.answer(question) for question in asked] == [6, 20, 42]
    shared = forks.share(forked.doubled, 21)
    deep = forks.ask(forked.asked_for, 2, shared=shared)
    assert forks.answer(deep) == 42 + 3


@pytest.mark.slow
def test_what_a_fork_wants_to_know_is_forgotten_with_it(forks):
    dead = forks.ask(forked.dead_while_asking)
    assert forks.answer(dead) is None
    start = time.monotonic()
    assert forks.answer(forks.ask(forked.doubled, 1)) == 2
    assert time.monotonic() - start < 5  # not after what it asked for


def test_who_works_for_what_can_wait_waits(forks):
    waiting = forks.ask(forked.sum_of_slow, 6, 0.3, can_wait=True)
    time.sleep(0.1)
    start = time.monotonic()
    soon = [forks.ask(forked.after, 0.1, number) for number in range(2)]
    assert [forks.answer(question)[0] for question in soon] == [0, 1]
    assert time.monotonic() - start < 0.8
    assert forks.answer(waiting) == 15


@pytest.mark.slow
def test_what_is_done_once_is_done_again_by_the_next_server(forks, tmp_path):
    file = tmp_path / "done"
    for _ in range(2):
        for _ in range(2):
            forks.once(forked.appended, str(file))
        assert forks.answer(forks.ask(forked.doubled, 1)) == 2
        forks.end()
        forks.begin()
        forked.wait_for(forks)
    assert file.read_text() == "xx"


def test_what_is_shared_is_found_once_and_dropped(forks):
    shared = forks.share(forked.doubled, 21)
    assert forks.answer(forks.ask(forked.plus, 1, shared=shared)) == 43
    forks.drop(shared)
    assert forks.answer(forks.ask(forked.plus, 1, shared=shared)) is None
    assert forks.answer(forks.ask(forked.doubled, 1)) == 2


@pytest.mark.slow
def test_what_cannot_be_shared_has_no_answers(forks):
    shared = forks.share(forked.wrong)
    assert forks.answer(forks.ask(forked.plus, 1, shared=shared)) is None


@pytest.mark.parametrize("fails", ["wrong", "dead", "warned"])
def test_what_fails_or_has_something_to_say_has_no_answer(forks, fails):
    asked = forks.ask(getattr(forked, fails))
    assert forks.answer(asked) is None
    assert forks.answer(forks.ask(forked.doubled, 1)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 1 << 16, 5_000_001])
def test_answers_and_questions_may_be_long(forks, count):
    assert forks.answer(forks.ask(forked.many_bytes, count)) == bytes(count)
    assert forks.answer(forks.ask(len, bytes(count))) == count


@pytest.mark.slow
def test_who_asks_much_need_not_listen_meanwhile(forks):
    """Pipes hold 64 KB: nobody waits for the other to read what he says."""
    size = 1_000_000
    asked = [forks.ask(bytes, bytes(size)) for _ in range(12)]
    assert [len(forks.answer(question)) for question in asked] == 12 * [size]


@pytest.mark.slow
def test_what_is_printed_is_no_answer(forks):
    assert forks.answer(forks.ask(forked.printed)) == "and an answer"


def test_a_server_that_dies_has_no_answers_and_its_forks_die(forks):
    first = forks.ask(forked.after, 0.0, "first")
    _, pid = forks.answer(first)
    asked = [forks.ask(forked.after, 60.0, number) for number in range(3)]
    server = forked.pid_of(forks)
    os.kill(server, signal.SIGKILL)
    assert [forks.answer(question) for question in asked] == [None, None, None]
    assert not forks.is_ready and not is_alive(pid)
    assert forks.answer(forks.ask(forked.doubled, 1)) is None
    forks.begin()  # another one
    forked.wait_for(forks)
    assert forks.answer(forks.ask(forked.doubled, 1)) == 2


def test_an_interrupt_leaves_no_server(forks, monkeypatch):
    """What it says next would be taken for the rest of what was being read."""

    def interrupted(_self):
        raise KeyboardInterrupt

    asked = forks.ask(forked.doubled, 1)
    server = forked.pid_of(forks)
    with monkeypatch.context() as patched:
        patched.setattr(pickled.PickledProcess, "answer", interrupted)
        with pytest.raises(KeyboardInterrupt):
            forks.answer(asked)
    assert not is_alive(server) and forks.answer(asked) is None


def test_it_ends_when_nobody_asks(monkeypatch):
    read, _write = os.pipe()
    answers_read, answers = os.pipe()
    monkeypatch.setattr("tvm_stitch.processes.fork_server.IDLE_SECONDS", 0.05)
    ForkServer(read, answers, 2).serve()
    assert pickle.loads(os.read(answers_read, 100)) is True


def test_a_single_process_starts_none(monkeypatch):
    monkeypatch.setenv(JOBS, "1")
    forks = Forks()
    forks.begin()
    assert forks._process is None and not forks.is_ready


def test_one_that_cannot_be_started_is_not_tried_again(two_jobs, monkeypatch):
    forks = Forks()
    monkeypatch.setattr("sys.executable", "/no/such/python")
    forks.begin()
    assert not forks.is_ready
    monkeypatch.setattr("subprocess.Popen", lambda *_given, **_named: pytest.fail("again"))
    forks.begin()


def test_other_settings_have_another_server(forks, monkeypatch):
    before = forked.pid_of(forks)
    forks.begin()
    assert forked.pid_of(forks) == before
    monkeypatch.setenv("TVM_STITCH_CXX", "another")
    forks.begin()
    assert forked.pid_of(forks) != before and not is_alive(before)


def test_a_fork_of_this_process_has_none(monkeypatch):
    """That of its parent would answer one what the other has asked."""
    monkeypatch.setattr(module.FORKS, "_process", "the parent's")
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.write(write, str(module.FORKS._process).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"None"
    assert module.FORKS._process == "the parent's"


@pytest.mark.parametrize("value, expected", [("1", 1), ("0", 1), ("many", None), (None, None)])
def test_how_many_processes_work_is_said_by_the_environment(monkeypatch, value, expected):
    if value is None:
        monkeypatch.delenv(JOBS, raising=False)
    else:
        monkeypatch.setenv(JOBS, value)
    assert jobs() == (expected or len(os.sched_getaffinity(0)))


def test_where_others_are_at_work_fewer_are_started(monkeypatch):
    monkeypatch.setattr(pickled.os, "sched_getaffinity", lambda _process: set(range(8)))
    monkeypatch.setattr(pickled.os, "getloadavg", lambda: (4.8, 0.0, 0.0))
    monkeypatch.delenv(JOBS, raising=False)
    assert (jobs(), jobs_now()) == (8, 3)
    monkeypatch.setattr(pickled.os, "getloadavg", lambda: (40.0, 0.0, 0.0))
    assert (jobs(), jobs_now()) == (8, 1)
    monkeypatch.setenv(JOBS, "6")
    assert (jobs(), jobs_now()) == (6, 6)
