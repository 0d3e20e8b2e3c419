import { renameSync, rmSync, statSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname } from 'node:path'
import { OperatorError } from '../../errors.ts'
import { syncFolder } from '../../files/durable-files.ts'
import { partialNameOf, removeLeftovers } from '../../files/partial-file.ts'
import { toWriteError } from '../terminal/standard-streams.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { STANDARD_STREAM } from './file-format.ts'
import { createPacker } from './gzip.ts'

/** The output of a command. */
export interface OutputFile {
  /** Resolves once the text is written. An abort rejects a write to standard output with the reason of the signal. */
  write(text: string | Uint8Array): Promise<void>
  /** Syncs the file to disk, then replaces an existing one with it. */
  finish(): Promise<void>
  /** Deletes the unfinished file. A file that existed before stays unchanged. */
  discard(): Promise<void>
}

export interface OutputOptions {
  readonly terminal: Terminal
  readonly signal: AbortSignal
  readonly isPacked?: boolean
}

/**
 * Opens standard output, or a new file that replaces an existing one when it is complete. The file is packed with gzip
 * if `isPacked`, and only the user of this process can read it. Throws `OperatorError` with its name if it cannot
 * be written, or if it exists and is not a regular file.
 */
export async function openOutputFile(
  file: string,
  { terminal, signal, isPacked = false }: OutputOptions,
): Promise<OutputFile> {
  if (file === STANDARD_STREAM) return openStandardOutput(terminal, signal)
  const output = await openNamedFile(file)
  return isPacked ? packOutput(output) : output
}

function packOutput(output: OutputFile): OutputFile {
  const packer = createPacker(output)
  return {
    write: packer.write,
    finish: async () => {
      await packer.finish()
      await output.finish()
    },
    discard: output.discard,
  }
}

function openStandardOutput({ stdout }: Terminal, signal: AbortSignal): OutputFile {
  return {
    // Waits for a slow reader, because text that is still buffered is lost when the process exits.
    write: text =>
      new Promise((resolve, reject) => {
        const giveUp = () => reject(signal.reason)
        signal.addEventListener('abort', giveUp)
        stdout.write(text, error => {
          signal.removeEventListener('abort', giveUp)
          if (error == null) resolve()
          else reject(toWriteError('standard output', error))
        })
      }),
    finish: async () => {},
    discard: async () => {},
  }
}

async function openNamedFile(file: string): Promise<OutputFile> {
  // The rename would replace a device such as /dev/null with a file.
  if (statSync(file, { throwIfNoEntry: false })?.isFile() === false) {
    throw new OperatorError([`${file} is not a regular file; - stands for standard output`])
  }
  const partial = partialNameOf(file)
  const withWriteErrors = <T>(work: () => Promise<T>) =>
    work().catch(error => {
      throw toWriteError(file, error)
    })
  const handle = await withWriteErrors(async () => {
    removeLeftovers(file)
    return open(partial, 'wx', 0o600)
  })
  return {
    write: text => withWriteErrors(() => handle.writeFile(text)),
    finish: () =>
      withWriteErrors(async () => {
        await handle.sync()
        await handle.close()
        renameSync(partial, file)
        syncFolder(dirname(file))
      }),
    discard: async () => {
      await handle.close()
      rmSync(partial, { force: true })
    },
  }
}
