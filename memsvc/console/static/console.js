"use strict";
// What pages do beyond links and forms. All of them work without this.

// A form that cannot be undone asks first: data-ask holds the question.
document.addEventListener("submit", (event) => {
  const question = event.target.dataset.ask;
  if (question && !window.confirm(question)) event.preventDefault();
});

// "/" goes to the search of the page.
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.target.isContentEditable;
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const search = document.querySelector("main input[type=search]");
  if (search) { event.preventDefault(); search.focus(); search.select(); }
});

// After a part of the page was asked for and nothing came, say so where everybody hears it.
document.addEventListener("htmx:sendError", () => {
  const said = document.getElementById("said");
  const alert = document.createElement("div");
  alert.className = "alert";
  alert.textContent = "The server cannot be reached. Nothing was changed.";
  said.replaceChildren(alert);
});

// Where there is no room for all of it: the place one is at, and the latest hours of a chart.
// scrollIntoView would do as well, but in some versions of Chromium the next Tab then goes on from there.
const places = document.querySelector(".places"), here = places?.querySelector("[aria-current]");
const middle = (one) => { const box = one.getBoundingClientRect(); return box.left + box.width / 2; };
if (here) places.scrollLeft += middle(here) - middle(places);
for (const one of document.querySelectorAll(".wide:has(> .chart-wide)")) one.scrollLeft = one.scrollWidth;

// A page that comes back from the browser's memory may be one that its reader has signed out of: ask the server.
window.addEventListener("pageshow", (event) => { if (event.persisted) window.location.reload(); });

// htmx notes the address of the page in the tab's storage, for a history that is not kept here; an address names
// sessions and users. A tab without storage throws, and nothing was noted.
try { window.sessionStorage.removeItem("htmx-current-path-for-history"); } catch { }
