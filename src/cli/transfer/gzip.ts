import { createGunzip, createGzip } from 'node:zlib'
import { OperatorError } from '../../errors.ts'

/** Packed bytes that are unpacked at a time. They may grow a thousandfold, all in memory. */
export const MAX_PACKED_BYTES = 16 * 1024

/** Unpacked bytes that are yielded together. */
const CHUNK_BYTES = 1024 * 1024

/**
 * Unpacks chunks of at most `MAX_PACKED_BYTES`. Throws `OperatorError`, which names the file, if its data are damaged
 * or incomplete.
 */
export async function* gunzipChunks(
  chunks: AsyncIterable<Buffer>,
  file: string,
): AsyncGenerator<Buffer> {
  const gunzip = createGunzip()
  let parts: Buffer[] = []
  let bytes = 0
  let failure: NodeJS.ErrnoException | undefined
  let wake = () => {}
  gunzip.on('data', (part: Buffer) => {
    parts.push(part)
    bytes += part.length
  })
  gunzip.on('error', error => {
    failure = error
  })
  // A write that fails never calls back.
  gunzip.on('close', () => wake())
  const settled = (start: (done: () => void) => void) =>
    new Promise<void>(resolve => {
      wake = resolve
      start(resolve)
    })
  function take(): Buffer {
    const taken = Buffer.concat(parts)
    parts = []
    bytes = 0
    return taken
  }

  try {
    let isEmpty = true
    for await (const chunk of chunks) {
      isEmpty = false
      await settled(done => gunzip.write(chunk, done))
      if (bytes >= CHUNK_BYTES) yield take()
      if (failure !== undefined) break
    }
    if (failure === undefined) await settled(done => gunzip.on('end', done).end())
    if (bytes > 0) yield take()
    if (failure !== undefined || isEmpty) throw new OperatorError([problemOf(file, failure)])
  } finally {
    gunzip.destroy()
  }
}

function problemOf(file: string, failure: NodeJS.ErrnoException | undefined): string {
  if (failure === undefined || failure.code === 'Z_BUF_ERROR') {
    return `${file} is cut off: the end of its gzip data is missing`
  }
  return failure.message === 'incorrect header check'
    ? `${file} is not gzip, although its name ends in .gz`
    : `${file} is damaged: its gzip data has an ${failure.message}`
}

/** Takes bytes in order. */
interface ByteSink {
  write(bytes: Uint8Array): Promise<void>
}

/** Packs text on its way to `sink`. */
export function createPacker(sink: ByteSink) {
  const gzip = createGzip()
  let parts: Buffer[] = []
  gzip.on('data', (part: Buffer) => parts.push(part))

  async function passOn(): Promise<void> {
    const packed = Buffer.concat(parts)
    parts = []
    if (packed.length > 0) await sink.write(packed)
  }

  return {
    write: async (text: string | Uint8Array): Promise<void> => {
      await new Promise(resolve => gzip.write(text, resolve))
      await passOn()
    },
    /** Writes the rest. */
    finish: async (): Promise<void> => {
      await new Promise(resolve => gzip.on('end', resolve).end())
      await passOn()
    },
  }
}
