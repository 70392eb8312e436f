/* Shows the sections of the page. */
document.documentElement.classList.add("scripted");
