// @ts-check
// Before anything is drawn: the theme that the person chose on any page or board of this server, else the system's.
{
  const page = document.documentElement;
  page.classList.add("js");
  try {
    const kept = localStorage.getItem("workbench.theme");
    if (kept === "light" || kept === "dark") page.dataset.theme = kept;
  } catch { /* a browser that keeps nothing */ }
}
