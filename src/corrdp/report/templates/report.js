// Replace each static picture by its interactive chart; if that fails, it stays.
for (const [name, spec] of Object.entries(JSON.parse(document.getElementById("specs").textContent))) {
  const place = document.getElementById(`chart-${name}`);
  const drawing = document.createElement("div");
  const room = place.clientWidth - 180;
  spec.width = Math.max(120, Math.min(spec.width, room));
  window.vegaEmbed(drawing, spec, { actions: false, renderer: "svg", tooltip: { theme: "custom" } }).then(() => {
    place.replaceChildren(drawing);
    place.dataset.interactive = "true";
  });
}
