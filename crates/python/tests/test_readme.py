"""The examples of the documentation give the results that it shows."""

import doctest
import pathlib

import pytest

import segnofs

README = pathlib.Path(__file__).parent.parent / "README.md"


@pytest.mark.parametrize("run", [lambda: doctest.testfile(str(README), module_relative=False), lambda: doctest.testmod(segnofs)])
def test_examples(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, tried = run()
    assert failed == 0 and tried > 2
