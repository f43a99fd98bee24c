"""The picture of a scan: at each level first the files that are read, then the skipped files, with the reason in each block."""

from collections.abc import Sequence

from icefloe.display.figures.blocks import Block, BlockLevel
from icefloe.scan.decisions import Decision

# The most blocks of a level; of more files, neighbours of the same kind share a block.
_MOST_BLOCKS = 120


def file_level(name: str, text: str, concept: str, aside: str) -> BlockLevel:
    """Return a level that has only one file, which every scan reads.

    Args:
        name: The name of the level.
        text: The text in the block.
        concept: The kind of file, which decides the colour: a key of `COLOURS`.
        aside: A second line of text, such as the size of the file.
    """
    return BlockLevel(name=name, aside="read", blocks=(Block(concept=concept, weight=1, text=text, aside=aside, state="kept"),))


def decision_level(name: str, kept: Sequence[Decision], skipped: Sequence[Decision], concept: str, unread: int = 0) -> BlockLevel:
    """Return a level whose blocks are the decisions about its files.

    Args:
        name: The name of the level.
        kept: The decisions about files that are read.
        skipped: The decisions about files that are skipped.
        concept: The kind of file, which decides the colour: a key of `COLOURS`.
        unread: The number of files in skipped manifests, about which there are no decisions.
    """
    count = len(kept) + len(skipped)
    blocks = [*_blocks(kept, concept, count), *_blocks(skipped, concept, count)]
    if unread:
        text = f"{unread:,} in skipped manifests"
        blocks.append(Block(concept="quiet", weight=unread, text=text, tip=f"{text}: never listed", strength=0.2, state="skipped"))
    return BlockLevel(name=name, aside=f"{len(kept):,} of {count + unread:,} read", blocks=tuple(blocks))


def _blocks(decisions: Sequence[Decision], concept: str, count: int) -> list[Block]:
    group = max(1, -(-count // _MOST_BLOCKS))
    blocks = []
    for start, first in zip(range(0, len(decisions), group), decisions[::group], strict=True):
        members = min(group, len(decisions) - start)
        reason = first.explanation or first.reason.value
        name = first.partition or first.path.rpartition("/")[2]
        more = f" and {members - 1:,} more" if members > 1 else ""
        blocks.append(
            Block(
                concept=concept if first.kept else "quiet",
                weight=members,
                text=f"{members:,}" if members > 1 else name,
                aside=reason,
                tip=f"{'read' if first.kept else 'skipped'}: {name}{more}: {reason}",
                strength=1.0 if first.kept else 0.28,
                state="kept" if first.kept else "skipped",
            )
        )
    return blocks
