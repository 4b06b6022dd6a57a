const specs = JSON.parse(document.getElementById("charts").textContent);

async function draw(element) {
  if (element.dataset.drawn) return;
  element.dataset.drawn = "yes";
  await window.vegaEmbed(element, specs[element.dataset.chart], { mode: "vega-lite", actions: false, renderer: "svg" });
}

// A chart takes its width from its place on the page, so a folded one is drawn when it is opened.
function drawOpen(within) {
  const visible = [...within.querySelectorAll("[data-chart]")].filter((element) => element.clientWidth > 0);
  return Promise.all(visible.map(draw));
}

for (const fold of document.querySelectorAll("details")) {
  fold.addEventListener("toggle", () => fold.open && drawOpen(fold));
}

drawOpen(document).then(() => document.documentElement.setAttribute("data-ready", "yes"));
