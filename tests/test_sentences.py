"""Nothing is decided by comparing sentences, and sentences that users read are made in wording/."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "steincheck"
FILES = sorted(SOURCE.rglob("*.py"))
# outside wording/, labels of pictures and tables included; the help of cli/ is left out
MAX_SENTENCES_ELSEWHERE = 65


def parents(tree):
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def is_sentence(node, least=2):
    """Whether a node is text of several words; spaces at the ends do not count."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) >= least


def compared_sentences(tree):
    """Lines on which text of several words is compared with something, looked for in it, or looked up."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(
            is_sentence(part) for part in (node.left, *node.comparators)
        ):
            yield node.lineno
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            looks = node.func.attr in ("startswith", "endswith", "find", "index", "partition", "removeprefix")
            if looks and any(is_sentence(part) for part in node.args):
                yield node.lineno


def kinds(tree):
    """Values of Literal types: names of kinds, which may have two words."""
    subscripts = [
        n for n in ast.walk(tree) if isinstance(n, ast.Subscript) and getattr(n.value, "id", "") == "Literal"
    ]
    return {
        leaf.value for node in subscripts for leaf in ast.walk(node.slice) if isinstance(leaf, ast.Constant)
    }


def test_nothing_is_decided_by_a_sentence():
    named = set().union(*(kinds(ast.parse(path.read_text())) for path in FILES))
    faults = set()
    for path in FILES:
        tree = ast.parse(path.read_text())
        literal = {n.lineno for n in ast.walk(tree) if is_sentence(n) and n.value in named}
        if set(compared_sentences(tree)) - literal:
            faults.add(path.relative_to(SOURCE).as_posix())
    assert not faults


def made_sentences(tree):
    """Lines of text with at least four words that is no docstring, no error and no argument of a pattern."""
    above = parents(tree)
    for node in ast.walk(tree):
        if not is_sentence(node, least=4) or "\\" in node.value or "<" in node.value:
            continue
        chain = [node]
        while chain[-1] in above:
            chain.append(above[chain[-1]])
        if not any(isinstance(n, ast.Raise) for n in chain) and not isinstance(chain[1], ast.Expr):
            # parts of an f-string have lines of their own from Python 3.12 on
            yield next((n.lineno for n in chain if isinstance(n, ast.JoinedStr)), node.lineno)


def test_sentences_are_made_in_wording():
    trees = [ast.parse(path.read_text()) for path in FILES if not {"wording", "cli"} & set(path.parts)]
    assert sum(len(set(made_sentences(tree))) for tree in trees) <= MAX_SENTENCES_ELSEWHERE
