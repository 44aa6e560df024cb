"""Every block of the documentation says what it is, and is that; what it does is tried by the end-to-end tests."""

import json
import subprocess

import pytest
import yaml

from support.environment.doc_blocks import ROOT, TAGS, Block, blocks, blocks_of, pages, program
from support.source_trees import parsed

BLOCKS = [block for page in pages() for block in blocks(page)]


def having(tag: str) -> list[Block]:
    return [block for block in BLOCKS if block.tag == tag]


@pytest.mark.parametrize("page", pages())
def test_every_block_says_what_it_is(page: str) -> None:
    assert [(block.place, block.tag) for block in blocks(page) if block.tag not in TAGS] == []


@pytest.mark.parametrize("page", pages())
def test_every_fence_is_of_a_block(page: str) -> None:
    assert (ROOT / page).read_text().count("```") == 2 * len(blocks(page))


@pytest.mark.parametrize("block", having("json"), ids=lambda block: block.place)
def test_what_is_called_json_parses(block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize("block", having("python"), ids=lambda block: block.place)
def test_what_is_called_python_compiles(block: Block) -> None:
    parsed(block.text)


@pytest.mark.parametrize("page", pages())
def test_what_is_called_yaml_loads(page: str) -> None:
    for block in blocks(page):
        if block.tag == "yaml":
            yaml.safe_load(block.text)


PAGE = """# A page

1. In a list:

   ```bash
   SEEN=yes
   ```

```python
print("as printed")
```

```text
never run
```

```bash
echo "$SEEN"
false
```
"""


def test_a_page_is_one_program_whose_failure_names_its_line() -> None:
    ended = subprocess.run(
        ["bash"],
        input=program("page.md", blocks_of("page.md", PAGE)),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert ended.stdout == "as printed\nyes\n"
    assert ended.stderr == "page.md:19 ended with 1\n"
    assert ended.returncode == 1
