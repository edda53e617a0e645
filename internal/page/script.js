(() => {
  "use strict";
  const copy = document.getElementById("copy");
  if (copy && navigator.clipboard) {
    copy.hidden = false;
    copy.onclick = () => navigator.clipboard.writeText(document.getElementById("replay").textContent).then(() => { copy.textContent = "copied"; });
  }

  // One cursor for all pictures: pointing at an instant in one shows the same instant in every picture that contains it.
  const figures = [...document.querySelectorAll(".figure[data-from]")].map((el) => {
    const line = document.createElement("div"), text = document.createElement("span");
    line.className = "cursor";
    line.hidden = true;
    line.append(text);
    el.append(line);
    return { el, line, text, from: +el.dataset.from, to: +el.dataset.to, plot: el.querySelector(".axis .plot") };
  });
  const show = (t) => {
    for (const f of figures) {
      f.line.hidden = t === null || t < f.from || t > f.to;
      if (f.line.hidden) continue;
      const box = f.el.getBoundingClientRect(), plot = f.plot.getBoundingClientRect();
      f.line.style.left = plot.left - box.left + plot.width * (t - f.from) / (f.to - f.from) + "px";
      f.line.style.bottom = box.bottom - plot.top + "px";
      const digits = Math.max(0, Math.min(6, 3 - Math.floor(Math.log10(f.to - f.from))));
      f.text.textContent = t.toFixed(digits) + " s";
    }
  };
  for (const f of figures) {
    f.el.addEventListener("pointermove", (e) => {
      const plot = f.plot.getBoundingClientRect(), x = (e.clientX - plot.left) / plot.width;
      show(x < 0 || x > 1 ? null : f.from + x * (f.to - f.from));
    });
    f.el.addEventListener("pointerleave", () => show(null));
  }
})();
