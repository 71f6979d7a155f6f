// Finding a text among words: across spaces and lines, whatever its case and its accents.

/** What is compared: small letters without accents, and single spaces. */
export function fold(text) {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().replace(/\s+/g, " ").trim();
}

/** What `findWords` looks in: the words in a row, and for each character the number of its word. */
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

/** All places of a text: [first word, last word] of each. */
export function findWords(index, query) {
  const wanted = fold(query);
  const found = [];
  if (!wanted) return found;
  for (let at = index.text.indexOf(wanted); at >= 0; at = index.text.indexOf(wanted, at + wanted.length)) {
    found.push([index.owners[at], index.owners[at + wanted.length - 1]]);
  }
  return found;
}
