import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { TestContext } from 'vitest'
import { temporaryFolder } from '../support/open-test-app.ts'

const LIBRARY = fileURLToPath(new URL('../support/record-disk.c', import.meta.url))

const RECORD_BYTES = 32

const KINDS = {
  c: 'create',
  d: 'mkdir',
  w: 'write',
  t: 'truncate',
  s: 'sync',
  u: 'unlink',
} as const

/** One change of a file or folder by a process. */
export interface DiskRecord {
  readonly kind: (typeof KINDS)[keyof typeof KINDS]
  /** Relative to the recorded folder, which itself is ''. */
  readonly path: string
  /** For a write its bytes; for a truncate the new size. */
  readonly offset: number
  readonly data: Buffer
  /** The time after the call, by the clock of `process.hrtime`. */
  readonly endedAt: bigint
}

export interface DiskRecorder {
  /** Environment variables that make a process record its changes below `folder`. Several processes share one record. */
  environment(folder: string): Record<string, string>
  records(): DiskRecord[]
}

/** A recorder in a new folder. Skips the test if recording is not possible. */
export function recorderOrSkip(context: TestContext): DiskRecorder {
  const recorder = createDiskRecorder(temporaryFolder())
  if (typeof recorder !== 'string') return recorder
  console.log(`skipped: ${recorder}`)
  return context.skip(recorder)
}

/** Compiles the library that records, or returns why it cannot. */
function createDiskRecorder(scratch: string): DiskRecorder | string {
  if (process.platform !== 'linux') return `LD_PRELOAD is of Linux, not of ${process.platform}`
  const library = join(scratch, 'record-disk.so')
  const options = ['-shared', '-fPIC', '-O1', '-o', library, LIBRARY, '-ldl']
  const compiler = spawnSync('cc', options, { encoding: 'utf8' })
  if (compiler.error !== undefined) return `no C compiler: ${compiler.error.message}`
  if (compiler.status !== 0) throw new Error(compiler.stderr)
  const file = join(scratch, 'records')
  return {
    environment: folder => ({
      LD_PRELOAD: library,
      RECORD_FOLDER: realpathSync(folder),
      RECORD_FILE: file,
    }),
    records: () => (existsSync(file) ? parse(readFileSync(file)) : []),
  }
}

/** The folder of a recorded path, in the form of records. */
export function folderOf(path: string): string {
  const folder = dirname(path)
  return folder === '.' ? '' : folder
}

function parse(bytes: Buffer): DiskRecord[] {
  const records: DiskRecord[] = []
  for (let at = 0; at < bytes.length; ) {
    const kind = KINDS[String.fromCharCode(bytes.readUInt32LE(at)) as keyof typeof KINDS]
    const pathAt = at + RECORD_BYTES
    const dataAt = pathAt + bytes.readUInt32LE(at + 4)
    const end = dataAt + Number(bytes.readBigUInt64LE(at + 8))
    records.push({
      kind,
      path: bytes.toString('utf8', pathAt, dataAt),
      offset: Number(bytes.readBigInt64LE(at + 16)),
      data: bytes.subarray(dataAt, end),
      endedAt: bytes.readBigInt64LE(at + 24),
    })
    at = end
  }
  return records
}
