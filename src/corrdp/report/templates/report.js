// Replace each static picture by its interactive chart; if that fails, it stays.
const room = document.querySelector("main").clientWidth - 212;
for (const [name, spec] of Object.entries(JSON.parse(document.getElementById("specs").textContent))) {
  const place = document.getElementById(`chart-${name}`);
  const drawing = document.createElement("div");
  spec.width = Math.max(120, Math.min(spec.width, room));
  window.vegaEmbed(drawing, spec, { actions: false, renderer: "svg", tooltip: { theme: "custom" } }).then(() => {
    place.replaceChildren(drawing);
    place.dataset.interactive = "true";
  });
}
// A link to a folded section opens it, and paper shows all that is meant for it.
const unfold = () => {
  const target = location.hash ? document.getElementById(location.hash.slice(1)) : null;
  const details = target && target.querySelector(":scope > details");
  if (details) details.open = true;
};
addEventListener("hashchange", unfold);
unfold();
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const details of folded) details.open = true;
});
addEventListener("afterprint", () => { for (const details of folded) details.open = false; });
