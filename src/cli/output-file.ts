import { renameSync, rmSync, statSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname } from 'node:path'
import { OperatorError } from '../errors.ts'
import { syncFolder } from '../storage/durable-files.ts'
import { partialNameOf, removeLeftovers } from '../storage/partial-file.ts'
import { STANDARD_STREAM } from './file-format.ts'

/** What a command writes. */
export interface OutputFile {
  /** Ends once it is written, or throws the reason of the signal. */
  write(text: string): Promise<void>
  /** Puts a file in its place, once it is on disk. */
  finish(): Promise<void>
  /** Leaves what was there before. */
  discard(): Promise<void>
}

/**
 * A file, which takes the place of one that is there when it is whole, and is for the user of this process only; or
 * standard output. Throws `OperatorError` for what is there and is no file.
 */
export async function openOutputFile(file: string, signal: AbortSignal): Promise<OutputFile> {
  return file === STANDARD_STREAM ? standardOutput(signal) : namedFile(file)
}

function standardOutput(signal: AbortSignal): OutputFile {
  return {
    // A reader that is slow, or that no longer reads, is waited for: what is not yet written is lost at the exit.
    write: text =>
      new Promise((resolve, reject) => {
        const giveUp = () => reject(signal.reason)
        signal.addEventListener('abort', giveUp)
        process.stdout.write(text, error => {
          signal.removeEventListener('abort', giveUp)
          if (error == null) resolve()
          else reject(error)
        })
      }),
    finish: async () => {},
    discard: async () => {},
  }
}

async function namedFile(file: string): Promise<OutputFile> {
  // A device such as /dev/null would be gone, and a file in its place.
  if (statSync(file, { throwIfNoEntry: false })?.isFile() === false) {
    throw new OperatorError([`${file} is no file; - stands for standard output`])
  }
  const folder = dirname(file)
  removeLeftovers(file)
  const partial = partialNameOf(file)
  const handle = await open(partial, 'wx', 0o600)
  return {
    write: text => handle.writeFile(text),
    finish: async () => {
      await handle.sync()
      await handle.close()
      renameSync(partial, file)
      syncFolder(folder)
    },
    discard: async () => {
      await handle.close()
      rmSync(partial, { force: true })
    },
  }
}
