// The page: which runs and which topic are shown, and when charts are drawn.
const drawers = {
  lines: drawLines,
  bars: drawBars,
  mesh: drawMesh,
  spread: drawSpread,
};
const shown = { topic: 0, runs: new Set(data.runs.keys()) };

// A chart in a closed section is drawn when the section opens.
function redraw(box, figure) {
  box.replaceChildren();
  if (box.closest("details:not([open])")) return;
  if (figure.ofOneTopic && data.overall && shown.topic === 0) {
    html(box, "div", { class: "missing" }, "This figure shows one topic: choose one above.");
    return;
  }
  const series = figure.series.filter((each) => each.topic === shown.topic && shown.runs.has(each.run));
  if (series.length) drawers[figure.kind](box, figure, series);
  const reasons = new Map();
  for (const run of shown.runs) {
    if (series.some((each) => each.run === run)) continue;
    const known = figure.absent.find((each) => each.run === run && each.topic === shown.topic);
    const reason = known ? known.reason : figure.missing;
    reasons.set(reason, [...(reasons.get(reason) ?? []), data.runs[run]]);
  }
  for (const [reason, names] of reasons) {
    html(box, "div", { class: "missing" }, data.runs.length > 1 ? `${names.join(", ")}: ${reason}` : reason);
  }
}

function redrawAll() {
  for (const element of document.querySelectorAll("main [data-topic], main [data-run]")) {
    const { topic, run } = element.dataset;
    const runs = run === undefined ? [] : run.split(" ").map(Number);
    const otherTopic = topic !== undefined && Number(topic) !== shown.topic;
    element.hidden = otherTopic || (runs.length > 0 && !runs.some((each) => shown.runs.has(each)));
  }
  for (const figure of data.figures) redraw(document.querySelector(`#${figure.id} .chart`), figure);
}

// A button that copies a command; if the browser refuses, the command is selected.
function offerCopy(command) {
  const button = document.createElement("button");
  const rest = () => {
    button.textContent = "Copy";
  };
  button.type = "button";
  button.className = "copy";
  button.setAttribute("aria-label", `copy ${command.textContent}`);
  button.addEventListener("click", async () => {
    getSelection().selectAllChildren(command);
    try {
      await navigator.clipboard.writeText(command.textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Press Ctrl+C";
    }
    setTimeout(rest, 2000);
  });
  rest();
  command.after(button);
}

// Open the section that has the id in an address, or that contains the element with this id.
function unfold(hash) {
  const named = document.getElementById(hash.slice(1));
  const closed = named?.closest("details:not([open])");
  if (!closed) return;
  closed.open = true;
  named.scrollIntoView();
}

function start() {
  document.documentElement.classList.add("scripted");
  for (const input of document.querySelectorAll(".toolbar input[data-run]")) {
    input.checked = true;
    input.addEventListener("change", () => {
      const run = Number(input.dataset.run);
      if (input.checked) shown.runs.add(run);
      else shown.runs.delete(run);
      redrawAll();
    });
  }
  const picker = document.getElementById("topic");
  if (picker) {
    picker.value = "0";
    picker.addEventListener("change", () => {
      shown.topic = Number(picker.value);
      redrawAll();
    });
  }
  for (const link of document.querySelectorAll('a[href^="#"]')) link.addEventListener("click", () => unfold(link.hash));
  for (const figure of data.figures) {
    const box = document.querySelector(`#${figure.id} .chart`);
    box.closest("details")?.addEventListener("toggle", () => redraw(box, figure));
  }
  for (const command of document.querySelectorAll(".command")) offerCopy(command);
  redrawAll();
  unfold(location.hash);
  addEventListener("hashchange", () => unfold(location.hash));
  addEventListener("beforeprint", () => {
    for (const section of document.querySelectorAll(".opening")) section.open = true;
    redrawAll();
  });
  let width = innerWidth;
  let waiting = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(redrawAll, 150);
  });
  // For a test, which compares these number formats with those of number_text.py.
  window.hearsay = { formats };
}

start();
