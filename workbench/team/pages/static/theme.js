// @ts-check
// Applies the stored theme, or else the system theme, before the first paint.
{
  const page = document.documentElement;
  page.classList.add("js");
  try {
    const kept = localStorage.getItem("workbench.theme");
    if (kept === "light" || kept === "dark") page.dataset.theme = kept;
  } catch { /* storage is unavailable */ }
}
