"""The examples of the documentation give the results that it shows."""

import doctest
import pathlib

import pytest

import segnofs

PACKAGE = pathlib.Path(__file__).parent.parent


def page(path):
    return lambda: doctest.testfile(str(path), module_relative=False)


PAGES = [page(PACKAGE / "README.md"), page(PACKAGE.parent.parent / "docs/guide/python.md")]


@pytest.mark.parametrize("run", [*PAGES, lambda: doctest.testmod(segnofs)])
def test_examples(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, tried = run()
    assert failed == 0 and tried > 2
