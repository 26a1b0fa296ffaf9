// What the theme leaves out: levels of captions that are headings, and keyboard access to what scrolls.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll('[role="heading"]:not([aria-level])').forEach((caption) => {
    caption.setAttribute("aria-level", "2");
  });
  document.querySelectorAll("pre, .table-wrapper, .container, .sidebar-scroll, .toc-scroll, div.math").forEach((box) => {
    if (box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight) {
      box.setAttribute("tabindex", "0");
    }
  });
});
