import { once } from 'node:events'
import { createWriteStream, renameSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname } from 'node:path'
import { finished } from 'node:stream/promises'
import { STANDARD_STREAM } from './file-format.ts'

/** What a command writes. */
export interface OutputFile {
  /** Ends once there is room for more. */
  write(text: string): Promise<void>
  /** Puts a file in its place, once it is on disk. */
  finish(): Promise<void>
  /** Leaves what was there before. */
  discard(): void
}

/** A file, which takes the place of one that is there when it is whole, and is for the user of this process only; or standard output. */
export function openOutputFile(file: string): OutputFile {
  return file === STANDARD_STREAM ? standardOutput() : namedFile(file)
}

function standardOutput(): OutputFile {
  return { write: text => writeTo(process.stdout, text), finish: async () => {}, discard: () => {} }
}

function namedFile(file: string): OutputFile {
  const temporary = `${file}.${process.pid}.tmp`
  const stream = createWriteStream(temporary, { flags: 'wx', mode: 0o600, flush: true })
  let failure: Error | undefined
  stream.on('error', error => {
    failure = error
  })
  return {
    write: async text => {
      if (failure !== undefined) throw failure
      await writeTo(stream, text)
    },
    finish: async () => {
      stream.end()
      await finished(stream)
      renameSync(temporary, file)
      await syncFolder(dirname(file))
    },
    discard: () => {
      stream.destroy()
      rmSync(temporary, { force: true })
    },
  }
}

async function writeTo(stream: NodeJS.WritableStream, text: string): Promise<void> {
  if (!stream.write(text)) await once(stream, 'drain')
}

/** Puts the name on disk. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path)
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
