import { execFileSync } from 'node:child_process'
import { chmodSync, closeSync, openSync, readSync, writeFileSync, writeSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { temporaryFolder } from './open-test-app.ts'
import { spawnService } from './spawn-service.ts'

type ErrorName = 'ENOSPC' | 'EIO' | 'EROFS'

/** Which calls fail for files below one folder. Calls that are left out work. */
export interface DiskFaults {
  readonly writes?: ErrorName
  readonly syncs?: ErrorName
  readonly reads?: ErrorName
  readonly truncates?: ErrorName
  /** Number of these calls that succeed before the first one that fails. */
  readonly passes?: number
  /** Number of calls that fail before the disk works again; all if left out. */
  readonly failures?: number
  /** Writes succeed until a sync has failed. */
  readonly untilSync?: boolean
  /** Each write accepts only half of its bytes. */
  readonly shortWrites?: boolean
  /** Writes of at most so many bytes succeed, as on a disk that is nearly full. */
  readonly room?: number
}

export type FailingDisk = ReturnType<typeof createFailingDisk>

const SOURCE = fileURLToPath(new URL('fail-disk.c', import.meta.url))

const PASSES_FIELD = 4

const CLOCK_FIELD = 9

const FAILED_CALLS_FIELD = 10

/** Compiles the library to preload. */
export function compileDisk(place: string): string {
  const library = join(place, 'fail-disk.so')
  execFileSync('cc', ['-shared', '-fPIC', '-o', library, SOURCE, '-ldl'])
  return library
}

/**
 * The disk and the clock of a service that is spawned with `env`, also while it runs. `folder` is where it, or a server of any
 * user, keeps its data.
 */
export function createFailingDisk(folder: string) {
  const place = temporaryFolder()
  chmodSync(place, 0o755)
  const library = compileDisk(place)
  const control = join(place, 'control')
  writeFileSync(control, Buffer.alloc(4096))
  chmodSync(control, 0o666)
  const file = openSync(control, 'r+')
  onTestFinished(() => closeSync(file))

  function write(firstField: number, values: readonly number[]): void {
    writeSync(
      file,
      Buffer.from(BigInt64Array.from(values, BigInt).buffer),
      0,
      undefined,
      firstField * 8,
    )
  }

  function read(fieldNumber: number): number {
    const field = Buffer.alloc(8)
    readSync(file, field, 0, 8, fieldNumber * 8)
    return Number(field.readBigInt64LE())
  }

  /** Replaces the previous faults. */
  function fail(faults: DiskFaults): void {
    const errnoOf = (name?: ErrorName) => (name === undefined ? 0 : constants.errno[name])
    const { writes, syncs, reads, truncates, passes = 0, failures = -1, room = 0 } = faults
    const flags = [faults.untilSync, faults.shortWrites].map(flag => (flag ? 1 : 0))
    write(FAILED_CALLS_FIELD, [0])
    write(0, [...[writes, syncs, reads, truncates].map(errnoOf), passes, failures, ...flags, room])
  }

  return {
    env: { LD_PRELOAD: library, FAIL_DISK_CONTROL: control, FAIL_DISK_FOLDER: folder },
    fail,
    work: () => fail({}),
    /** Moves the service's wall clock away from the clock of the test. Its monotonic clock stays. */
    shiftClock: (seconds: number) => write(CLOCK_FIELD, [seconds]),
    /** Number of calls that have failed since `fail` was called. */
    failedCalls: () => read(FAILED_CALLS_FIELD),
    /** Number of `passes` that are left. */
    passesLeft: () => read(PASSES_FIELD),
  }
}

/** The built service, with its data in `data` below `cwd`. */
export async function startOnFailingDisk(
  cwd = temporaryFolder(),
  env: Readonly<Record<string, string>> = {},
) {
  const disk = createFailingDisk(join(cwd, 'data'))
  return { cwd, disk, service: await spawnService({ cwd, env: { ...env, ...disk.env } }) }
}
