"""`import morphism` needs only the standard library."""

import subprocess
import sys

PRINTS_WHAT_IT_LOADED = """
import sys
before = set(sys.modules)
import morphism, morphism.codec, morphism.detector, morphism.draw
print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))
"""


def test_importing_morphism_loads_no_third_party_module() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PRINTS_WHAT_IT_LOADED], capture_output=True, text=True, check=True, timeout=60
    )

    assert set(ran.stdout.split()) - set(sys.stdlib_module_names) == {"morphism"}
