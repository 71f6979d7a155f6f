// Tabs: arrow keys, Home and End move between them, as users of screen readers expect.

import { element } from "./dom.js";

/**
 * Tabs over panels.
 *
 * @param tabs     [{name, label, count, make}]; `make` makes the content when the tab is first opened
 * @param onChange gets the name of the opened tab
 */
export function createTabs(label, tabs, onChange) {
  const list = element("div", { role: "tablist", "aria-label": label, class: "tab-list" });
  const node = element("div", { class: "tabs" }, list);
  const panels = new Map();

  function open(name, takesFocus = false) {
    for (const { button, panel, tab } of panels.values()) {
      const isOpen = tab.name === name;
      button.setAttribute("aria-selected", String(isOpen));
      button.tabIndex = isOpen ? 0 : -1;
      panel.hidden = !isOpen;
      if (isOpen && !panel.firstChild) panel.append(tab.make());
      if (isOpen && takesFocus) button.focus();
    }
    onChange(name);
  }

  for (const tab of tabs) {
    const button = element("button", { type: "button", role: "tab", id: `tab-${tab.name}`, "aria-controls": `panel-${tab.name}`, class: "tab", onclick: () => open(tab.name) }, tab.label);
    if (tab.count !== undefined) button.append(" ", element("span", { class: "count" }, tab.count.toLocaleString("en")));
    const panel = element("div", { role: "tabpanel", id: `panel-${tab.name}`, "aria-labelledby": `tab-${tab.name}`, tabindex: "0", class: "panel" });
    panels.set(tab.name, { button, panel, tab });
    list.append(button);
    node.append(panel);
  }
  list.addEventListener("keydown", (event) => {
    const names = [...panels.keys()];
    const at = names.findIndex((name) => panels.get(name).button === document.activeElement);
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: -1 }[event.key];
    if (next === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    open(names[(next + names.length) % names.length], true);
    event.preventDefault();
  });
  open(tabs[0].name);
  return { node, open };
}
