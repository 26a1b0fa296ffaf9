"""Signals that end the work: raised again until it ends, and handlers as they were afterwards."""

import signal
import threading
import time

import pytest

from steincheck import _signals


def handlers():
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_is_repeated_until_the_work_ends(number, status, monkeypatch):
    """The first one is swallowed, as JAX does; the timer raises the next, and is off afterwards."""
    monkeypatch.setattr(_signals, "SECONDS_BETWEEN", 0.02)
    own = signal.signal(number, signal.default_int_handler)  # a shell may have told its children to ignore it
    before = handlers()
    with _signals.ending_signals() as seen:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):
            time.sleep(10)
    assert seen == [number]
    assert _signals.exit_status(seen) == status
    assert handlers() == before
    signal.signal(number, own)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_ignored_signals_stay_ignored_and_other_threads_change_nothing():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    with _signals.ending_signals() as seen:
        signal.raise_signal(signal.SIGINT)
    assert signal.signal(signal.SIGINT, before) is signal.SIG_IGN
    assert seen == []
    inside = []

    def work():
        with _signals.ending_signals():
            inside.append(handlers())

    outside = handlers()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert inside == [outside] == [handlers()]
