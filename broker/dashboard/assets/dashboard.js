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
const lost = "The connection was lost. It is opened again as soon as possible.";
const signedOut = "You are signed out. Load this page again.";
const givenUp = "This page is not kept up to date any more. Load it again.";

const lostAfter = 5_000; // ms without a connection; streams end regularly, and are opened again
const retryAfter = 10_000; // ms, where the browser itself does not try again
const retries = 30;

// whenSeen calls show now, or as soon as somebody sees the page, and hide when nobody does any more.
function whenSeen(show, hide) {
  const changed = () => (document.hidden ? hide() : show());
  document.addEventListener("visibilitychange", changed);
  addEventListener("pagehide", hide);
  addEventListener("pageshow", (event) => event.persisted && changed());
  changed();
}

// listen keeps a stream of events open while somebody sees the page: browsers have six connections to a server at a
// time for all tabs. The first event of each stream has the current state. It returns a function that stops listening
// for good.
function listen(path, onmessage, say) {
  let source; // while somebody sees the page
  let noting; // timer of saying that the connection was lost
  let trying; // timer of the next try
  let failed; // tries in a row
  let ended = false;

  function open() {
    source = new EventSource(path);
    source.onmessage = onmessage;
    source.onopen = () => {
      clearTimeout(noting);
      noting = undefined;
      failed = 0;
      say("");
    };
    source.onerror = () => {
      noting ??= setTimeout(say, lostAfter, lost);
      if (source.readyState !== EventSource.CLOSED) {
        return; // the browser tries again
      }
      // It does not after any other response than a stream, such as a router's while the broker is replaced.
      failed += 1;
      if (failed > retries) {
        say(givenUp);
      } else {
        trying = setTimeout(open, retryAfter);
        if (failed === 1) {
          explain();
        }
      }
    };
  }

  // An EventSource does not show the response's status; fetch does.
  async function explain() {
    const response = await fetch(path).catch(() => undefined);
    response?.body?.cancel();
    if (response?.status === 401 && source?.readyState === EventSource.CLOSED) {
      clearTimeout(noting);
      say(signedOut);
    }
  }

  function show() {
    if (!source && !ended) {
      failed = 0;
      open();
    }
  }

  function hide() {
    clearTimeout(noting);
    clearTimeout(trying);
    noting = undefined;
    source?.close();
    source = undefined;
  }

  whenSeen(show, hide);
  return () => {
    ended = true;
    hide();
  };
}

function follow(instance) {
  const operation = document.getElementById("operation");
  const note = document.getElementById("live");
  const gone = new AbortController();
  let wanted = instance.dataset.structure; // what the latest event tells
  let fetching; // the structure that the page is fetched for, while it is

  function say(text) {
    note.textContent = text;
    note.hidden = text === "";
  }

  const focusable = () => [...instance.querySelectorAll("a, button, summary, [tabindex]")];

  function show(page) {
    const focused = focusable().indexOf(document.activeElement);
    const open = [...instance.querySelectorAll("details")].map((details) => details.open);
    for (const id of ["head", "rest"]) {
      const part = document.getElementById(id);
      part.replaceChildren(...page.getElementById(id).childNodes);
      localise(part);
    }
    instance.querySelectorAll("details").forEach((details, n) => { details.open = open[n] ?? false; });
    focusable()[focused]?.focus({ preventScroll: true });
  }

  async function fetchPage() {
    const response = await fetch(location.href, { signal: gone.signal });
    if (!response.ok || response.redirected) {
      throw new Error(`the page has status ${response.status}`);
    }
    const text = await response.text();
    gone.signal.throwIfAborted();
    return new DOMParser().parseFromString(text, "text/html");
  }

  // Each event contains the operation. Everything else is fetched again when it has changed: one request at a time, so
  // that no older response replaces a newer one.
  async function refresh() {
    while (fetching !== wanted && !gone.signal.aborted) {
      fetching = wanted;
      try {
        show(await fetchPage());
        instance.dataset.structure = fetching;
        if (note.textContent === outOfDate) {
          say("");
        }
      } catch {
        if (!gone.signal.aborted) {
          say(outOfDate);
        }
      }
    }
    fetching = undefined;
  }

  function end() {
    gone.abort();
    stop();
    say("");
    const mark = instance.querySelector(".heading .mark");
    mark.className = "mark";
    mark.textContent = "Deleted";
  }

  function update(message) {
    const told = JSON.parse(message.data);
    const fresh = document.createElement("div");
    fresh.innerHTML = told.operation;
    localise(fresh);
    if (fresh.innerHTML !== operation.innerHTML) {
      operation.replaceChildren(...fresh.childNodes);
    }
    wanted = told.structure;
    if (told.gone) {
      end();
    } else if (wanted !== instance.dataset.structure && !fetching) {
      refresh();
    }
  }

  const stop = listen(instance.dataset.events, update, say);
}

localise(document);
const instance = document.getElementById("instance");
if (instance) {
  follow(instance);
}
