// The page works without this script: it adds buttons that copy commands, and arrow keys that move between the blocks of a picture.
for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "copied";
    } catch {
      const range = document.createRange();
      range.selectNodeContents(button.previousElementSibling);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      button.textContent = "press Ctrl+C";
    }
    setTimeout(() => { button.textContent = "copy"; }, 2000);
  });
}
for (const picture of document.querySelectorAll("svg.blocks, svg.cells")) {
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const links = [...picture.querySelectorAll("a")];
    const next = links[links.indexOf(document.activeElement) + step];
    if (next) { next.focus(); event.preventDefault(); }
  });
}
