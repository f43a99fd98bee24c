"""Small pictures of pages, and how far two of them are from each other. Chromium itself scales and decodes them, so that no package for pictures is needed."""

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "pictures"
# A text whose width shows which font a page is drawn with.
SAMPLE = "Sphinx of black quartz, judge my vow 0123456789"
# The mean difference of a channel from 0 to 255 up to which two small pictures show the same page, and that of the worst of their blocks.
MOST_MEAN, MOST_OF_A_BLOCK = 4.0, 40.0

_SMALL = """async (picture) => {
    const image = new Image();
    image.src = picture;
    await image.decode();
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [248, 180];
    const context = canvas.getContext('2d');
    context.imageSmoothingQuality = 'high';
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    return canvas.toDataURL('image/png');
}"""
_DIFFERENCE = """async ([one, other, block]) => {
    const pixels = await Promise.all([one, other].map(async (picture) => {
        const image = new Image();
        image.src = picture;
        await image.decode();
        const canvas = document.createElement('canvas');
        [canvas.width, canvas.height] = [image.width, image.height];
        const context = canvas.getContext('2d');
        context.drawImage(image, 0, 0);
        return context.getImageData(0, 0, image.width, image.height);
    }));
    const [a, b] = pixels;
    if (a.width !== b.width || a.height !== b.height) return [255, 255];
    let sum = 0, worst = 0;
    for (let top = 0; top < a.height; top += block) {
        for (let left = 0; left < a.width; left += block) {
            let inBlock = 0, count = 0;
            for (let y = top; y < Math.min(top + block, a.height); y++) {
                for (let x = left; x < Math.min(left + block, a.width); x++) {
                    for (let channel = 0; channel < 3; channel++) {
                        const at = (y * a.width + x) * 4 + channel;
                        inBlock += Math.abs(a.data[at] - b.data[at]);
                        count += 1;
                    }
                }
            }
            sum += inBlock;
            worst = Math.max(worst, inBlock / count);
        }
    }
    return [sum / (a.width * a.height * 3), worst];
}"""


@dataclass(frozen=True)
class Difference:
    """How far two pictures are from each other: the mean over all pixels, and over those of the worst block."""

    mean: float
    worst: float

    @property
    def is_small(self) -> bool:
        """Whether they show the same page."""
        return self.mean <= MOST_MEAN and self.worst <= MOST_OF_A_BLOCK


@dataclass(frozen=True)
class Pictures:
    """Scales and compares pictures in an empty page of a browser."""

    page: Any

    def small(self, picture: bytes) -> bytes:
        """Return a picture of a window scaled down to a fifth, so that single letters no longer show."""
        address: str = self.page.evaluate(_SMALL, _address(picture))
        return base64.b64decode(address.partition(",")[2])

    def difference(self, one: bytes, other: bytes) -> Difference:
        """Return how far two pictures are from each other."""
        return Difference(*self.page.evaluate(_DIFFERENCE, [_address(one), _address(other), 12]))

    def font_width(self) -> float:
        """Return the width of a text in the font of the pages."""
        script = "(text) => { const c = document.createElement('canvas').getContext('2d'); c.font = '16px system-ui'; return c.measureText(text).width; }"
        return float(self.page.evaluate(script, SAMPLE))


def _address(picture: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"
