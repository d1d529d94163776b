// Before anything is drawn: the colours that were chosen last.
{
  const theme = localStorage.getItem("accams-theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
}
