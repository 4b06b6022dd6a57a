const find = document.getElementById("find");
const which = document.getElementById("which");
const small = document.getElementById("small");
const sections = [...document.querySelectorAll("section.found")];

function filter() {
  const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
  let matching = 0;
  for (const section of sections) {
    section.hidden = which.value !== "" && which.value !== section.id;
    const table = section.querySelector("table");
    const more = section.querySelector(".more");
    const open = more.getAttribute("aria-expanded") === "true" || words.length > 0;
    let found = 0;
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      const matches = words.every((word) => text.includes(word)) && !(small.checked && "small" in row.dataset);
      found += matches;
      row.hidden = !matches || (!open && found > Number(table.dataset.shown));
    }
    more.hidden = words.length > 0 || found <= Number(table.dataset.shown);
    if (words.length > 0 && found === 0) section.hidden = true;
    if (!section.hidden) matching += found;
  }
  document.getElementById("count").textContent = words.length > 0 || which.value || small.checked ? `${matching} rows` : "";
}

for (const button of document.querySelectorAll(".more")) {
  const all = button.textContent;
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", String(open));
    button.textContent = open ? "Show the worst" : all;
    filter();
  });
}
for (const control of [find, which, small]) control.addEventListener("input", filter);
filter();
