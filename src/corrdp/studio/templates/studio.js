// The slider and the words of a budget; everything works without this file.
const slider = document.getElementById("slider");
const epsilon = document.getElementById("epsilon");
const delta = document.getElementById("delta");
const words = document.getElementById("words");
if (slider && epsilon && delta && words) {
  let last = 0;
  const tell = async () => {
    const mine = ++last;
    const query = new URLSearchParams({ epsilon: epsilon.value, delta: delta.value });
    const answer = await (await fetch(`/words?${query}`)).json();
    if (mine === last) words.textContent = `An attacker who knows all but the sensitive values of one record: ${answer.words}`;
  };
  const follow = () => { slider.value = Math.log10(Number(epsilon.value) || 1); };
  slider.addEventListener("input", () => { epsilon.value = Number((10 ** slider.value).toPrecision(2)); tell(); });
  epsilon.addEventListener("input", () => { follow(); tell(); });
  delta.addEventListener("input", tell);
  follow();
}
