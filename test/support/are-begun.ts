/** Whether each of `asked` begins one of `words`, all of them folded. */
export function areBegun(words: readonly string[], asked: readonly string[]): boolean {
  return asked.every(beginning => words.some(word => word.startsWith(beginning)))
}
