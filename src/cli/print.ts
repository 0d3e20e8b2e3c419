/**
 * Writes lines to standard output, and ends once they are taken: a pipe may take less than all at once, and the process
 * is about to exit. A reader who is gone, as `head` is, has all that it wanted.
 */
export function print(text: string): Promise<void> {
  return new Promise(resolve => {
    const ignore = () => {}
    process.stdout.once('error', ignore)
    process.stdout.write(`${text}\n`, error => {
      // It is told of twice, here first.
      if (error == null) process.stdout.removeListener('error', ignore)
      resolve()
    })
  })
}
