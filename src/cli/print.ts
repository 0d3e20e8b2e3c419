/** Writes lines to standard output, and ends once they are taken: the process, which is about to exit, would cut them. */
export function print(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(`${text}\n`, error => (error == null ? resolve() : reject(error)))
  })
}
