import { type Environment, loadConfig } from '../config.ts'
import { backUp, checkStorage, restoreFrom, type WorkOptions } from '../wiring/database-tasks.ts'
import { EXIT } from './command-context.ts'
import { watchInterruption } from './interruption.ts'
import { createProgress } from './progress.ts'

const BYTES_PER_MB = 1e6

/** Copies the database into `file`, and says so once it is there. */
export function backup(environment: Environment, file: string): Promise<number> {
  const config = loadConfig(environment)
  return working(async options => {
    const { bytes } = await backUp(config, { ...options, file })
    return () => {
      console.log(`${file}: ${inMegabytes(bytes)} MB, checked`)
      return EXIT.done
    }
  })
}

/** Puts `file` in the place of the database, and says where the one before is. */
export function restore(environment: Environment, file: string): Promise<number> {
  const config = loadConfig(environment)
  return working(async options => {
    const { kept, pending } = await restoreFrom(config, { ...options, file })
    return () => {
      console.log(`${config.database.path}: restored from ${file}`)
      if (kept !== undefined) console.log(`${kept}: the database that was there before`)
      tellPending(pending)
      return EXIT.done
    }
  })
}

/** Prints a line for each fault of the database, or that it is sound. */
export function check(environment: Environment): Promise<number> {
  const config = loadConfig(environment)
  return working(async options => {
    const { faults, pending } = await checkStorage(config, options)
    return () => {
      for (const fault of faults) console.log(`${config.database.path}: ${fault}`)
      if (faults.length > 0) return EXIT.foundFaults
      console.log(`${config.database.path}: sound`)
      tellPending(pending)
      return EXIT.done
    }
  })
}

function tellPending(names: readonly string[]): void {
  if (names.length === 0) return
  console.log(`pending, for the next start or \`migrate\`: ${names.join(', ')}`)
}

/** Runs a work until it is done or a signal ends it. What it has to say is said once the bar is gone. */
async function working(work: (options: WorkOptions) => Promise<() => number>): Promise<number> {
  const progress = createProgress({ unit: 'MB' })
  const interruption = watchInterruption()
  const onProgress: WorkOptions['onProgress'] = ({ step, bytes }) => {
    if (bytes === undefined) progress.tell(STEPS[step])
    else progress.update(bytes.done / BYTES_PER_MB, bytes.done / bytes.total)
  }
  try {
    const { signal } = interruption
    const tell = await work({ signal, onProgress }).finally(progress.end)
    return tell()
  } catch (error) {
    if (!interruption.signal.aborted || (error as Error).name !== 'AbortError') throw error
    return interruption.exitCode()
  }
}

const STEPS = {
  copy: 'copying',
  check: 'checking each page, row and index',
  keep: 'keeping the database of before',
  replace: 'putting it in place',
}

function inMegabytes(bytes: number): string {
  return (bytes / BYTES_PER_MB).toFixed(1)
}
