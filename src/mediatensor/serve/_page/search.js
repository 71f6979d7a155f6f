// Finds a text in a sequence of words, across spaces and lines, without regard to case and accents.

/** The form of a text that is compared: lower-case letters without accents, and single spaces. */
export function fold(text) {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().replace(/\s+/g, " ").trim();
}

/** The index that `findWords` searches: the joined words, and for each character the number of its word. */
export function indexWords(words) {
  let text = "";
  const owners = [];
  words.forEach((word, number) => {
    const folded = (number ? " " : "") + fold(word.text);
    text += folded;
    for (let i = 0; i < folded.length; i += 1) owners.push(number);
  });
  return { text, owners };
}

/** All occurrences of a text, each as [first word, last word]. */
export function findWords(index, query) {
  const wanted = fold(query);
  const found = [];
  if (!wanted) return found;
  for (let at = index.text.indexOf(wanted); at >= 0; at = index.text.indexOf(wanted, at + wanted.length)) {
    found.push([index.owners[at], index.owners[at + wanted.length - 1]]);
  }
  return found;
}
