"""Play scripts by both rules and say where they differ; a difference that nobody has explained fails."""

import sys
from collections import Counter

from oracle import known, ours, theirs
from oracle.scripts import Script, make_script

SEED = 7


def main(scripts: range) -> int:
    """How many orders came to something that is not explained."""
    agreed = 0
    fills = 0
    explained = 0
    by_rule: Counter[str] = Counter()
    unexplained: list[str] = []
    for number in scripts:
        script = make_script(SEED, number)
        outcomes, commands = ours.play(script)
        for place, (our, their) in enumerate(zip(outcomes, theirs.play(script, commands), strict=True)):
            if our == their:
                agreed += 1
                fills += len(our.fills)
                continue
            foretold, rules = known.foretell(script.quotes, commands[place])
            if foretold == their and rules:
                explained += 1
                by_rule.update(rules)
            else:
                unexplained.append(_shown(number, place, script, commands[place], our, their))
    print(f"{len(scripts)} scripts, {agreed + explained + len(unexplained)} orders")
    print(f"{agreed} orders alike, with {fills} fills at the same price and quantity")
    print(f"{explained} orders differ by a rule that docs/paper-broker.md explains:")
    for rule, count in by_rule.most_common():
        print(f"{count:6}  {rule}")
    print(f"{len(unexplained)} orders differ and nobody knows why")
    print("\n".join(unexplained[:10]))
    return len(unexplained)


def _shown(number: int, place: int, script: Script, *what: object) -> str:
    quotes = [f"{quote.size} at {quote.price}" if quote else "bell" for quote in script.quotes]
    return "\n  ".join([f"script {number}, order {place}: {quotes}", *map(str, what)])


if __name__ == "__main__":
    sys.exit(1 if main(range(int(sys.argv[1]))) else 0)
