"""Compiled programs on disk: used inside our calls only, and never in the way of the user's own settings."""

import os
import random
import sys
import threading
import warnings

import jax
import numpy as np
import pytest
from jax._src.compilation_cache import compress_executable, decompress_executable
from jax.experimental.compilation_cache.compilation_cache import reset_cache

import steincheck as sc
from steincheck import _compilation
from steincheck._compilation import precise

SETTINGS = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs", "jax_enable_x64")


@pytest.fixture
def switch(monkeypatch):
    """Set the environment variable, as if the process had just begun."""
    monkeypatch.setattr(_compilation, "MIN_SECONDS", 0.0)

    def set_to(value):
        monkeypatch.setenv(_compilation.CACHE_VARIABLE, str(value))
        _compilation._directory.cache_clear()

    yield set_to
    _compilation._directory.cache_clear()


def settings():
    return [getattr(jax.config, name) for name in SETTINGS]


def compile_something(number):
    """A program that no other call has compiled; the same number gives the same program."""

    def program(x):
        return x * number + 1

    return float(jax.jit(program)(2.0))


def stored(folder):
    return sorted(file.name for file in folder.glob("*-cache"))


def test_programs_are_written_inside_our_calls_only_and_found_again(tmp_path, switch):
    switch(tmp_path)
    before = settings()
    with precise():
        assert compile_something(11.5) == 24.0
    files = stored(tmp_path)
    assert len(files) == 1
    assert settings() == before
    compile_something(12.5)  # the user's own program
    assert stored(tmp_path) == files
    hits = []
    jax.monitoring.register_event_listener(lambda event, **_: hits.append(event.endswith("/cache_hits")))
    with precise():
        assert compile_something(11.5) == 24.0
    assert sum(hits) == 1
    assert stored(tmp_path) == files


def test_settings_are_restored_after_an_error(tmp_path, switch):
    switch(tmp_path)
    before = settings()
    with pytest.raises(ZeroDivisionError), precise():
        raise ZeroDivisionError
    assert settings() == before


def test_nested_calls_leave_the_outer_one_its_directory(tmp_path, switch):
    switch(tmp_path)
    with precise():
        with precise():
            pass
        compile_something(13.5)
    assert len(stored(tmp_path)) == 1


def test_threads_that_overlap_restore_the_settings(tmp_path, switch):
    switch(tmp_path)
    before = settings()
    both_inside = threading.Barrier(2, timeout=60)
    first_is_out = threading.Event()

    def first():
        with precise():
            both_inside.wait()
        first_is_out.set()

    def second():
        with precise():
            both_inside.wait()
            first_is_out.wait(60)
            assert jax.config.jax_compilation_cache_dir == str(tmp_path)

    errors = []

    def run(body):
        try:
            body()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[body]) for body in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert settings() == before


def test_versions_of_jax_without_its_private_modules_do_without_files(tmp_path, switch, monkeypatch):
    (tmp_path / "damaged-cache").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "jax._src.compilation_cache", None)
    switch(tmp_path)
    with precise():
        assert compile_something(18.5) == 38.0
    assert "damaged-cache" in stored(tmp_path)
    monkeypatch.setitem(sys.modules, "jax.experimental.compilation_cache.compilation_cache", None)
    switch(tmp_path / "other")
    with precise():
        assert compile_something(19.5) == 40.0
    assert not (tmp_path / "other").exists()


def test_it_can_be_switched_off(tmp_path, switch, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    switch("off")
    with precise():
        compile_something(14.5)
    assert not list(tmp_path.rglob("*"))
    switch("")
    with precise():
        compile_something(14.5)
    [ours] = (tmp_path / "steincheck").iterdir()
    assert ours.name.startswith(f"jax-{jax.__version__}")
    assert len(stored(ours)) == 1


def test_a_cache_of_the_users_own_is_used_instead(tmp_path, switch):
    switch(tmp_path / "ours")
    own = tmp_path / "own"
    jax.config.update("jax_compilation_cache_dir", str(own))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    reset_cache()
    try:
        with precise():
            compile_something(15.5)
        assert jax.config.jax_compilation_cache_dir == str(own)
    finally:
        jax.config.update("jax_compilation_cache_dir", None)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 1.0)
        reset_cache()
    assert len(stored(own)) == 1
    assert not (tmp_path / "ours").exists()


def test_a_directory_that_cannot_be_made_is_no_obstacle(tmp_path, switch):
    file = tmp_path / "file"
    file.touch()
    switch(file / "below")
    with precise():
        assert compile_something(16.5) == 34.0


def test_old_programs_go_when_there_are_too_many(tmp_path, switch, monkeypatch):
    program = compress_executable(b"program")
    monkeypatch.setattr(_compilation, "MAX_BYTES", 3.5 * len(program))
    for k in range(4):
        file = tmp_path / f"{k}-cache"
        file.write_bytes(program)
        os.utime(file, (k, k))
    switch(tmp_path)
    with precise():
        pass
    assert stored(tmp_path) == ["3-cache"]


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_damaged_programs_are_replaced_silently(tmp_path, switch, share):
    switch(tmp_path)
    with precise():
        compile_something(17.5)
    [file] = tmp_path.glob("*-cache")
    whole = file.read_bytes()
    for _ in range(2):  # also one that was found whole before
        switch(tmp_path)
        file.write_bytes(whole[: int(share * len(whole))])
        with warnings.catch_warnings(), precise():
            warnings.simplefilter("error")
            assert compile_something(17.5) == 36.0
        assert decompress_executable(file.read_bytes())


@pytest.mark.parametrize(
    ("system", "settings", "folder"),
    [
        ("darwin", {}, "home/Library/Caches/steincheck"),
        ("win32", {"LOCALAPPDATA": "local"}, "local/steincheck"),
        ("win32", {}, "home/AppData/Local/steincheck"),
        ("linux", {"XDG_CACHE_HOME": "caches"}, "caches/steincheck"),
        ("linux", {}, "home/.cache/steincheck"),
    ],
)
def test_the_folder_is_where_the_platform_keeps_caches(monkeypatch, system, settings, folder):
    for name in ("LOCALAPPDATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "home", **settings}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(_compilation.sys, "platform", system)
    assert _compilation.user_cache().as_posix() == folder


def test_tests_called_from_several_threads_give_what_they_give_alone():
    draws = np.random.default_rng(0).normal(size=(200, 2))
    target = sc.models.gaussian_mixture([[0.0, 0.0]])
    alone = [sc.ksd_test(draws, target, rng=seed).pvalue for seed in range(4)]
    found = [None] * 4

    def work(seed):
        found[seed] = sc.ksd_test(draws, target, rng=seed).pvalue

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == alone


def test_what_is_the_users_stays_as_it_was():
    target = sc.models.gaussian_mixture([[-3.0], [3.0]])
    draws = target.sample(150, 0)
    kept = draws.copy()
    settings = dict(jax.config.values)
    legacy = np.random.get_state()[1].tolist()  # noqa: NPY002
    python = random.getstate()
    errors = np.geterr()
    with warnings.catch_warnings():
        filters = list(warnings.filters)
        sc.check(draws, target, rng=0)
        sc.spksd_test(draws, target, modes=[[-3.0], [3.0]], n_resamples=99, rng=0)
        assert warnings.filters == filters
    assert dict(jax.config.values) == settings
    assert not jax.config.jax_enable_x64
    assert np.random.get_state()[1].tolist() == legacy  # noqa: NPY002
    assert random.getstate() == python
    assert np.geterr() == errors
    assert np.array_equal(draws, kept)
