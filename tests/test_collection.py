"""The suite needs nothing but what `make test` sets up; what is not installed is skipped, each
test with its reason."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.process import CHECKOUT, environment

WITHOUT_PROGRAMS = """
import shutil, sys
shutil.which = lambda *_, **__: None
sys.modules.update(dict.fromkeys(("onnx", "onnxruntime", "tokenizers")))
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_every_test_is_collected_on_a_machine_that_has_no_optional_program(tmp_path: Path) -> None:
    options = ("--collect-only", "-q", "--assert=plain", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PROGRAMS, *options],
        cwd=CHECKOUT,
        env=environment(PATH=str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
