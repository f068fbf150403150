"""Garbage is looked for seldom while planning, and as before afterwards, whoever plans beside."""

import gc
import threading

import pytest

from tvm_stitch.workarounds.few_collections import OBJECTS, few_collections


@pytest.fixture(autouse=True)
def threshold():
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_it_is_as_before_afterwards_even_after_an_error():
    with pytest.raises(ValueError), few_collections():
        assert gc.get_threshold() == (OBJECTS, 10, 10)
        raise ValueError
    assert gc.get_threshold() == (700, 10, 10)


def test_the_last_of_several_threads_puts_it_back():
    inside, leave = threading.Event(), threading.Event()

    def other():
        with few_collections():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with few_collections():
        thread.start()
        inside.wait()
    assert gc.get_threshold()[0] == OBJECTS
    leave.set()
    thread.join()
    assert gc.get_threshold() == (700, 10, 10)


def test_who_has_switched_it_off_or_wants_it_rarer_is_left_alone():
    for own in (0, 2 * OBJECTS):
        gc.set_threshold(own, 10, 10)
        with few_collections():
            assert gc.get_threshold()[0] == own
        assert gc.get_threshold()[0] == own


def test_what_was_there_before_is_not_gone_through():
    assert gc.get_freeze_count() == 0
    with few_collections():
        with few_collections():
            assert gc.get_freeze_count() > 0
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0


def test_what_somebody_has_frozen_stays_so():
    gc.freeze()
    try:
        with few_collections():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
