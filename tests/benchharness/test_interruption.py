import os
import signal

import pytest

from benchharness.progress import Interrupted, Signals


@pytest.fixture
def signals():
    taken = Signals()
    before = signal.signal(signal.SIGTERM, taken.take)
    yield taken
    signal.signal(signal.SIGTERM, before)


def send() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_signal_outside_a_protected_block_interrupts_immediately(signals: Signals):
    with pytest.raises(Interrupted) as caught:
        send()
    assert caught.value.args == (signal.SIGTERM,)


def test_signal_in_a_protected_block_interrupts_after_the_block(signals: Signals):
    done, announced = [], []

    def block() -> None:
        with signals.held_back():
            send()
            done.append("the rest")

    with signals.announced_by(lambda: announced.append(True)), pytest.raises(Interrupted):
        block()
    assert done == ["the rest"]
    assert announced == [True]
    with signals.held_back():
        done.append("again")
    assert done == ["the rest", "again"], "a signal interrupts once"


def test_signal_in_a_protected_block_that_raises_an_error_is_not_lost(signals: Signals):
    def fail() -> None:
        with signals.held_back():
            send()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    entered = []
    with pytest.raises(Interrupted), signals.held_back():
        entered.append(True)
    assert not entered


def test_nested_protected_blocks_delay_a_signal_to_the_end_of_the_outer_block(signals: Signals):
    done = []

    def block() -> None:
        with signals.held_back():
            with signals.held_back():
                send()
            done.append("after the inner one")

    with pytest.raises(Interrupted):
        block()
    assert done


def test_protected_block_without_a_signal_has_no_effect(signals: Signals):
    with signals.held_back():
        pass
    assert signals.arrived == 0
