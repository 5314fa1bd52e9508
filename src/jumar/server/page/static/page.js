"use strict";
/* What htmx leaves to do: which fragment is shown, the key, the form, files that need a key. */

(() => {
  const KEY = "jumar-key";
  const find = (id) => document.getElementById(id);
  const key = () => sessionStorage.getItem(KEY);
  const headers = () => (key() ? { Authorization: `Bearer ${key()}` } : {});

  // ---- which fragment: its address stands behind the # ------------------------------------------

  function show() {
    if (location.hash && !location.hash.startsWith("#/")) return; // a place in the page
    const url = new URL("/page" + (location.hash.slice(1) || "/home"), location.origin);
    if (!/^\/page\/(home|jobs|models)(\/|$)/.test(url.pathname)) url.pathname = "/page/home";
    htmx.ajax("GET", url.pathname + url.search, "#main").then(() => {
      find("main").focus({ preventScroll: true });
      scrollTo(0, 0);
    });
  }

  function refused(error) {
    const shown = find("refusal").content.cloneNode(true);
    shown.querySelector("code").textContent = error.code || "";
    shown.querySelector("span").textContent = error.message || "";
    shown.querySelector(".hint").textContent = error.hint || "";
    return shown.firstElementChild;
  }

  function errorIn(text, status) {
    try {
      return JSON.parse(text).error || {};
    } catch {
      return { code: String(status), message: "The server gave no answer that this page knows." };
    }
  }

  function banner(text) {
    find("banner").textContent = text;
    find("banner").hidden = !text;
  }

  document.body.addEventListener("htmx:configRequest", (event) => {
    Object.assign(event.detail.headers, headers());
  });

  document.body.addEventListener("htmx:beforeRequest", (event) => {
    const polled = event.detail.elt.matches("[hx-trigger*='every']");
    if (polled && (document.hidden || find("key").open)) event.preventDefault();
  });

  /* What is polled is morphed: nothing moves where nothing is new, and a click that takes longer than
     an answer still finds its button. */
  Idiomorph.defaults.callbacks.beforeNodeMorphed = (shown, told) =>
    !(shown.nodeName === "TIME" && shown.dateTime === told.dateTime); // it is in the visitor's own time

  document.body.addEventListener("htmx:beforeSwap", (event) => {
    const { xhr, target } = event.detail;
    banner("");
    if (xhr.status >= 400) {
      event.detail.shouldSwap = false;
      if (xhr.status === 401) return askForKey(errorIn(xhr.responseText, 401).message);
      const note = refused(errorIn(xhr.responseText, xhr.status));
      if (target.id === "main") target.replaceChildren(note);
      else if (xhr.status === 404) target.replaceWith(note); // it is not there any more: ask no longer
      return;
    }
    const drawn = (xhr.getResponseHeader("Content-Type") || "").startsWith("text/html");
    if (!drawn) event.detail.shouldSwap = false;
  });

  for (const kind of ["htmx:sendError", "htmx:timeout"]) {
    document.body.addEventListener(kind, () => banner("The server does not answer. This page goes on asking."));
  }

  // ---- the key ----------------------------------------------------------------------------------

  const kept = find("key-why").textContent;
  find("key-button").hidden = !key();

  function askForKey(why) {
    find("key-button").hidden = false;
    if (find("key").open) return;
    find("key-why").textContent = (key() && why) || kept;
    find("key-value").value = "";
    find("key").showModal();
  }

  find("key-button").addEventListener("click", () => askForKey());
  find("key").addEventListener("close", () => {
    const dialog = find("key");
    if (dialog.returnValue === "use") sessionStorage.setItem(KEY, find("key-value").value.trim());
    if (dialog.returnValue === "forget") sessionStorage.removeItem(KEY);
    if (dialog.returnValue) show();
    dialog.returnValue = "";
  });

  // ---- files: with a key they are fetched, without one the browser does it ----------------------

  async function address(path) {
    if (!key()) return path;
    const response = await fetch(path, { headers: headers() });
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    return URL.createObjectURL(await response.blob());
  }

  document.addEventListener("click", async (event) => {
    const link = event.target.closest("a[download]");
    if (!link || !key() || link.protocol === "blob:") return;
    event.preventDefault();
    const copy = document.createElement("a");
    copy.href = await address(link.getAttribute("href"));
    copy.download = link.download;
    copy.click();
  });

  // ---- the form ---------------------------------------------------------------------------------

  /* Values go as text: the server reads them as the key's type, and a seed of 19 digits stays whole. */
  function filled(form) {
    const request = { model: form.dataset.model, task: form.dataset.task, inputs: {}, config: {}, async_run: true };
    const files = [];
    for (const field of form.elements) {
      const [part, name] = (field.name || "").split(".");
      if (!name || field.value === "") continue;
      if (field.type === "file") for (const file of field.files) files.push([name, file]);
      else request[part][name] = field.dataset.type === "texts" ? field.value.split("\n").filter((line) => line.trim()) : field.value;
    }
    return { request, files };
  }

  function bodyOf({ request, files }) {
    if (!files.length) return { body: JSON.stringify(request), headers: { "Content-Type": "application/json", ...headers() } };
    const body = new FormData();
    body.append("request", JSON.stringify(request));
    for (const [name, file] of files) body.append(name, file);
    return { body, headers: headers() };
  }

  function asCommand({ request, files }) {
    const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
    const { async_run, ...plain } = request;
    const json = JSON.stringify(plain);
    const lines = [`curl ${location.origin}/v1/generate`];
    if (key()) lines.push("-H 'Authorization: Bearer …'");
    if (!files.length) lines.push("-H 'Content-Type: application/json'", `-d ${quoted(json)}`);
    else lines.push(`-F request=${quoted(json)}`, ...files.map(([name, file]) => `-F ${name}=@${quoted(file.name)}`));
    return lines.join(" \\\n  ");
  }

  async function run(form) {
    const asked = filled(form);
    const button = form.querySelector("button.main");
    for (const field of form.querySelectorAll("[aria-invalid]")) absolved(field);
    find("command").hidden = false;
    find("command").querySelector("pre").textContent = asCommand(asked);
    button.disabled = true;
    try {
      const response = await fetch("/v1/generate", { method: "POST", ...bodyOf(asked) });
      const text = await response.text();
      if (response.ok) {
        await htmx.ajax("GET", `/page/jobs/${JSON.parse(text).id}`, "#result");
        if (find("result").getBoundingClientRect().top > innerHeight / 2) find("result").scrollIntoView();
      } else if (response.status === 401) askForKey(errorIn(text, 401).message);
      else complain(form, errorIn(text, response.status));
    } catch {
      banner("The server does not answer.");
    } finally {
      button.disabled = false;
    }
  }

  function complain(form, error) {
    find("result").replaceChildren(refused(error));
    const named = (error.param || "").split(".").slice(0, 2).join(".");
    const field = [...form.elements].find((one) => one.name && one.name === named);
    if (!field) return;
    field.setAttribute("aria-invalid", "true");
    const why = document.createElement("small");
    why.className = "bad";
    why.textContent = [error.message, error.hint].filter(Boolean).join(" ");
    field.after(why);
    const folded = field.closest("details");
    if (folded) folded.open = true;
    field.focus();
  }

  function absolved(field) {
    field.removeAttribute("aria-invalid");
    for (const why of field.parentElement.querySelectorAll("small.bad")) why.remove();
  }

  document.addEventListener("submit", (event) => {
    if (event.target.id !== "try") return;
    event.preventDefault();
    run(event.target);
  });

  document.addEventListener("keydown", (event) => {
    const form = event.target.form;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && form && form.id === "try") form.requestSubmit();
  });

  document.addEventListener("change", (event) => {
    const field = event.target;
    if (field.form && field.form.id === "try") absolved(field);
    if (field.type !== "file") return;
    for (const old of field.parentElement.querySelectorAll(".preview")) {
      URL.revokeObjectURL(old.src);
      old.remove();
    }
    for (const file of field.files) {
      const preview = document.createElement(field.accept.startsWith("image") ? "img" : "audio");
      preview.className = "preview";
      preview.controls = true;
      preview.alt = file.name;
      preview.src = URL.createObjectURL(file);
      field.after(preview);
    }
  });

  document.addEventListener("input", (event) => {
    if (event.target.id !== "filter") return;
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of find("models").children) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    find("none").hidden = shown > 0;
  });

  // ---- what every new fragment needs ------------------------------------------------------------

  htmx.onLoad((root) => {
    for (const one of root.querySelectorAll("[data-file]")) {
      address(one.dataset.file).then((url) => (one.src = url), (error) => banner(error.message));
    }
    for (const time of root.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      const today = at.toDateString() === new Date().toDateString();
      time.textContent = today ? at.toLocaleTimeString([], { hourCycle: "h23" }) : at.toLocaleDateString();
    }
  });

  addEventListener("hashchange", show);
  show();
})();
