// Where the data comes from: a document that was written into this page, or the server that sent it.
"use strict";
(() => {
  const embedded = document.getElementById("data");
  const written = embedded ? JSON.parse(embedded.textContent) : null;

  class Refused extends Error {
    constructor(status, error) {
      super(error?.message ?? `the server answered ${status}`);
      this.status = status;
      this.hint = error?.hint ?? "";
    }
  }

  // In this variable, and nowhere else: it ends with the page.
  let token = "";

  async function get(path, query, signal) {
    const url = new URL(`api/v1/${path}`, document.baseURI);
    for (const [name, values] of Object.entries(query ?? {})) {
      for (const value of [values].flat())
        if (value !== undefined && value !== null) url.searchParams.append(name, value);
    }
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    let answer;
    try {
      answer = await fetch(url, {
        headers,
        signal,
        credentials: "omit",
        cache: "no-store",
        redirect: "error",
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refused(0, {
        message: "the server does not answer",
        hint: "is it running, and reachable from here?",
      });
    }
    const body = await answer.json().catch(() => null);
    if (!answer.ok || body === null) throw new Refused(answer.status, body?.error);
    return body;
  }

  lithify.written = written;
  lithify.get = get;
  lithify.setToken = (text) => {
    token = text.trim();
  };
})();
