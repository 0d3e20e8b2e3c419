import type { CopyProgress } from '../../storage/copy/copy-database.ts'
import { type Copied, copyDatabases } from '../../wiring/copy-databases.ts'
import { EXIT, type JsonFlags } from '../terminal/command-context.ts'
import { watchInterruption } from '../terminal/interruption.ts'
import { notify, print, printJson } from '../terminal/print.ts'
import { createProgress, grouped } from '../terminal/progress.ts'
import type { Terminal } from '../terminal/terminal.ts'

export interface CopyFlags extends JsonFlags {
  readonly from: string
  readonly to: string
}

const INTERRUPTED = 'interrupted: run the same command again to start over'

/** Runs `copy`. Returns the exit code. */
export async function copy(
  terminal: Terminal,
  { from, to, json = false }: CopyFlags,
): Promise<number> {
  const interruption = watchInterruption()
  const screen = createCopyDisplay(terminal)
  const startedAt = performance.now()
  try {
    const { environment } = terminal
    const { signal } = interruption
    const onProgress = screen.update
    const options = { from, to, environment, onProgress, signal }
    const copied = await copyDatabases(options).finally(screen.end)
    const seconds = (performance.now() - startedAt) / 1000
    await (json
      ? printJson(terminal, summarize(copied, seconds))
      : print(terminal, describe(copied, seconds)))
    return EXIT.done
  } catch (error) {
    if (!interruption.signal.aborted || (error as Error).name !== 'AbortError') throw error
    notify(terminal, INTERRUPTED)
    return interruption.exitCode()
  } finally {
    interruption.end()
  }
}

function createCopyDisplay(terminal: Terminal) {
  let progress = createProgress(terminal, { unit: 'users' })
  let current: CopyProgress['step'] = 'copy'
  return {
    update: ({ step, users, totalUsers }: CopyProgress) => {
      if (step !== current) {
        progress.end()
        // The rate and the remaining time are those of the step.
        progress = createProgress(terminal, { unit: UNITS[step] })
        current = step
      }
      progress.update(users, totalUsers === 0 ? undefined : Math.min(1, users / totalUsers))
    },
    end: () => progress.end(),
  }
}

const UNITS = { copy: 'users', verify: 'users verified' }

function describe(copied: Copied, seconds: number): string {
  const { to, users, idempotencyKeys, bans, apiKeys } = copied
  return [
    `${to}: ${grouped(users)} users, ${grouped(idempotencyKeys)} idempotency keys`,
    `${grouped(bans)} bans, ${grouped(apiKeys)} API keys, verified, in ${seconds.toFixed(1)} s`,
  ].join(', ')
}

function summarize(copied: Copied, seconds: number) {
  return {
    from: copied.from,
    to: copied.to,
    users: copied.users,
    idempotency_keys: copied.idempotencyKeys,
    bans: copied.bans,
    api_keys: copied.apiKeys,
    last_id: copied.lastId,
    checksum: copied.checksum,
    seconds: Number(seconds.toFixed(3)),
  }
}
