"""The lines of code in the README do what they say."""

import re
import subprocess
import sys
from pathlib import Path

from service.client import Client
from tests.support.servers import require_store, running_service

README = Path(__file__).parents[2] / "README.md"
URL = "http://127.0.0.1:8000"


def test_the_code_of_the_readme_runs(tmp_path: Path) -> None:
    """As it stands there, but for the address."""
    require_store()
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert code.count(URL) == 1
    with running_service(tmp_path) as service, Client(service.url) as client:
        command = [sys.executable, "-W", "error", "-c", code.replace(URL, service.url)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert ran.stdout == "3 counted, 0 refused\n"
        assert client.tenant("shop").counters["rewards_applied"] == 4
