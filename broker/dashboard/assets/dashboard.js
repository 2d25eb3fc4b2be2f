// Keeps the page of a service instance up to date, and puts moments into the viewer's own time zone. Without it, all
// that is on a page is there to read.
"use strict";

const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const hour = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

function localise(within) {
  for (const time of within.querySelectorAll("time:not([title])")) {
    time.title = time.textContent;
    time.textContent = format.format(new Date(time.dateTime));
  }
  for (const tick of within.querySelectorAll("text[data-time]")) { // of the plot
    const at = new Date(tick.dataset.time);
    tick.textContent = (at.getHours() === 0 && at.getMinutes() === 0 ? day : hour).format(at);
  }
}

const outOfDate = "This page is out of date. Load it again.";

function follow(instance) {
  const operation = document.getElementById("operation");
  const note = document.getElementById("live");
  let source;

  function say(text) {
    note.textContent = text;
    note.hidden = text === "";
  }

  const focusable = () => [...instance.querySelectorAll("a, button, summary, [tabindex]")];

  // All but the operation, of which each event tells, is fetched anew when something about it has changed.
  async function refresh(structure) {
    const answer = await fetch(location.href);
    if (!answer.ok || answer.redirected) {
      say(outOfDate);
      return;
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const focused = focusable().indexOf(document.activeElement);
    const open = [...instance.querySelectorAll("details")].map((details) => details.open);
    for (const id of ["head", "rest"]) {
      const part = document.getElementById(id);
      part.replaceChildren(...page.getElementById(id).childNodes);
      localise(part);
    }
    instance.querySelectorAll("details").forEach((details, n) => { details.open = open[n] ?? false; });
    focusable()[focused]?.focus({ preventScroll: true });
    instance.dataset.structure = structure;
  }

  function update(message) {
    const told = JSON.parse(message.data);
    const fresh = document.createElement("div");
    fresh.innerHTML = told.operation;
    localise(fresh);
    if (fresh.innerHTML !== operation.innerHTML) {
      operation.replaceChildren(...fresh.childNodes);
    }
    if (told.gone) {
      source.close();
    } else if (told.structure !== instance.dataset.structure) {
      refresh(told.structure).catch(() => say(outOfDate));
    }
  }

  function connect() {
    source = new EventSource(instance.dataset.events);
    source.onopen = () => say("");
    source.onmessage = update;
    source.onerror = () => say(source.readyState === EventSource.CLOSED
      ? "This page is not kept up to date any more. Load it again."
      : "The connection was lost; it is being made anew.");
  }

  connect();
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (event) => {
    if (event.persisted) {
      connect();
    }
  });
}

localise(document);
const instance = document.getElementById("instance");
if (instance) {
  follow(instance);
}
